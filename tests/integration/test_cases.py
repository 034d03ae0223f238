"""Files as people have reported them, byte for byte: what is wrong with each, and what it says all the same.

The right answers were written down by hand with the reports.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from foretrace.errors import TraceError
from foretrace.run import ROOT, Kind, Run, read

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"
BASE_NS = 1735632360000000000


@dataclass(frozen=True, slots=True)
class Case:
    """The right answer about one file.

    Attributes:
        slices: Name of each host slice → (how many, nanoseconds in all).
        busy_ns: Union of all GPU intervals.
        activities: Kernels, copies and sets.
        repairs: Kinds of the notes that make the input partial, with their counts.
        others: Kinds of notes that must be there too.
        base_ns: Absolute time of the first event, where the file has one.
    """

    file: str
    slices: dict[str, tuple[int, int]] = field(default_factory=dict)
    busy_ns: int = 0
    activities: int = 0
    repairs: dict[str, int] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    base_ns: int | None = None


OP1_TO_4 = {f"aten::op{i}": (1, 5_000) for i in (1, 2, 3, 4)}
FIRST_EVENT_NS = BASE_NS + 10_000

ANSWERS = (
    Case(
        "c02_winpath.json",
        slices={r"torch\cuda\__init__.py(219): _lazy_init": (1, 1_000), "aten::zero_": (1, 2_000)},
        repairs={"backslashes": 2},
        base_ns=1680718159986758000,
    ),
    Case(
        "c03_quotes.json",
        slices={
            '{"device": "cpu", "dtype": "float32"}(12): run': (1, 2_000),
            r'_test_lib_impl = torch.library.Library("_inductor_test", "IMPL")\n(1): <module>': (1, 0),
            "aten::mm": (1, 3_000),
        },
        repairs={"quotes": 2, "control-characters": 1},
    ),
    Case(
        "c04_ctrl.json",
        slices={r"torch/_inductor/config.py(0): \x01\x02\x7f": (1, 1_000), "aten::add": (1, 4_000)},
        repairs={"control-characters": 1},
    ),
    Case(
        "c05_badutf8.json",
        slices={"@\ufffdsP(0): flat_tensor \ufffd": (1, 1_000), "aten::add": (1, 4_000)},
        repairs={"invalid-utf8": 1},
    ),
    Case("c06_legacy_list.json", slices={"aten::mul": (3, 66_000)}, others=("legacy-profiler", "cpu-only")),
    Case(
        "c06b_legacy_cuda_missing_quote.json",
        slices={"add": (1, 134_490)},
        busy_ns=134_176,
        activities=1,
        repairs={"keys": 1},
        others=("legacy-profiler",),
    ),
    Case(
        "c07_truncated.json",
        slices={f"aten::op{i}": (1, 5_000) for i in (1, 2, 3)},
        repairs={"truncated": 1},
        base_ns=FIRST_EVENT_NS,
    ),
    Case("c07b_trailing_comma.json", slices=OP1_TO_4, repairs={"commas": 1}, base_ns=FIRST_EVENT_NS),
    Case("c07c_no_close.json", slices=OP1_TO_4, repairs={"missing-end": 1}, base_ns=FIRST_EVENT_NS),
    Case(
        "c07d_truncated.json.gz",
        slices={f"aten::op{i}": (1, 5_000) for i in (1, 2)},
        repairs={"gzip-truncated": 1, "truncated": 1},
        base_ns=FIRST_EVENT_NS,
    ),
    Case("c10_plain_named.json.gz", slices=OP1_TO_4, base_ns=FIRST_EVENT_NS),
    Case("c10b_gz_named.json", slices=OP1_TO_4, base_ns=FIRST_EVENT_NS),
    Case("c10c_bom.json", slices=OP1_TO_4, base_ns=FIRST_EVENT_NS),
    Case("c10d.pt.trace.json.zip", slices=OP1_TO_4, base_ns=FIRST_EVENT_NS),
    Case("c10e_two_members.json.gz", slices=OP1_TO_4, base_ns=FIRST_EVENT_NS),
    Case(
        "c12_negdur.json",
        slices={"train.py(1): <module>": (1, 0), "aten::mm": (1, 30_000), "aten::unfinished": (1, 0)},
        others=("unfinished",),
    ),
    Case(
        "c13_kernel_before_launch.json",
        slices={"c10d::alltoall": (1, 20_000), "cuLaunchKernelEx": (1, 4_000)},
        busy_ns=9_000,
        activities=1,
        others=("clock-skew",),
    ),
    Case(
        "c22_overlap.json",
        slices={
            "a.py(1): outer": (1, 100_000),
            "<built-in method my_op>": (1, 90_000),
            "mylib::my_op": (1, 8_000),
            "b.py(1): later": (1, 50_000),
        },
    ),
    Case(
        "c24_gpu_annot.json",
        slices={"ProfilerStep#1": (1, 1_000_000), "cudaLaunchKernel": (1, 5_000)},
        busy_ns=100_000,
        activities=1,
        others=("one-step",),
    ),
    Case("c29_string_ts.json", others=("string-numbers", "unknown-categories"), base_ns=213757592856000),
    Case("c37_bigint.json", busy_ns=2_000, activities=1, others=("orphans",)),
    Case("c39_meta_after.json", busy_ns=2_000, activities=1, base_ns=BASE_NS + 1_000),
)


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.file)
def test_a_reported_file_gives_its_right_answer(case: Case) -> None:
    """Every slice with its count and time, GPU work, what was repaired, and the exact base time."""
    run = read(CASES / case.file)
    run.check()
    assert case.slices == _slices(run)
    assert (case.activities, case.busy_ns) == (len(run.activities), run.busy_ns())
    assert case.repairs == {note.kind: note.count for note in run.notes if note.partial}
    assert bool(case.repairs) == run.repaired
    assert set(case.others) <= {note.kind for note in run.notes}
    if case.base_ns is not None:
        assert case.base_ns == run.trace.base_ns


def test_every_case_has_an_answer() -> None:
    """No file of the folder is left untested."""
    apart = {"c08_interleaved.json", "c18_launch_apis.json"}
    assert {path.name for path in CASES.glob("c*")} == {case.file for case in ANSWERS} | apart


def test_interleaved_writers_are_refused() -> None:
    """Two ranks in one file: no half-parsed totals, but the advice to record one file per rank."""
    with pytest.raises(TraceError, match="interleaved output of several writers") as raised:
        read(CASES / "c08_interleaved.json")
    assert raised.value.hint is not None
    assert "one file per rank" in raised.value.hint


def test_a_cut_file_says_how_much_of_it_was_complete() -> None:
    """The note about a cut counts the events before it."""
    texts = [note.text for note in read(CASES / "c07_truncated.json").notes]
    assert "truncated after 3 complete events" in texts


def test_every_launch_api_links_by_correlation() -> None:
    """Ten ways to launch, from cudaLaunchKernel to XPU and private backends: op i → call i → kernel i, 10 µs each."""
    run = read(CASES / "c18_launch_apis.json")
    run.check()
    calls = (
        *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
        *("cudaLaunchCooperativeKernel", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel"),
        *("urEnqueueKernelLaunchWithArgsExp", "launchKernel"),
    )
    expected = [(f"k{i}", call, f"op{i}", 10_000) for i, call in enumerate(calls)]
    found = [run.activity(i) for i in range(len(run.activities))]
    assert expected == [(a.name, a.launch, a.op, a.dur_ns) for a in found]


def test_a_kernel_before_its_launch_is_linked_and_the_skew_said() -> None:
    """0.8 µs of clock skew: the kernel belongs to the op, and no latency is a huge unsigned number."""
    run = read(CASES / "c13_kernel_before_launch.json")
    assert run.activity(0).op == "c10d::alltoall"
    (note,) = [note for note in run.notes if note.kind == "clock-skew"]
    assert "800 ns" in note.text


def test_a_slice_that_outlives_its_parent_is_cut_there() -> None:
    """The built-in ends with its parent at 100 µs; what comes later is a root, and no self time is negative."""
    run = read(CASES / "c22_overlap.json")
    self_ns = {run.name(i): int(run.host.self_ns[i]) for i in range(len(run.host))}
    assert self_ns["a.py(1): outer"] == 10_000
    assert self_ns["<built-in method my_op>"] == 82_000
    later = next(i for i in range(len(run.host)) if run.name(i) == "b.py(1): later")
    assert run.host.parent[later] == ROOT


def test_a_gpu_twin_of_an_annotation_is_neither_step_nor_work() -> None:
    """One step of 1,000 µs that owns the kernel."""
    run = read(CASES / "c24_gpu_annot.json")
    assert [(step.name, step.dur_ns, step.activities.tolist()) for step in run.steps] == [
        ("ProfilerStep#1", 1_000_000, [0])
    ]


def test_timestamps_written_as_text_are_numbers() -> None:
    """Times and durations as JSON strings are read; the category stays unknown."""
    run = read(CASES / "c29_string_ts.json")
    assert run.trace.columns.start_ns.tolist() == [26_000, 0]
    assert run.trace.columns.dur_ns.tolist() == [143_117_000, 143_117_000]
    assert not run.repaired


def test_metadata_after_the_events_is_found() -> None:
    """Rank, world size and device of a file that writes its header last."""
    run = read(CASES / "c39_meta_after.json")
    assert (run.rank, run.world_size, run.device_name) == (3, 8, "NVIDIA H200")


def _slices(run: Run) -> dict[str, tuple[int, int]]:
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for slice_ in range(len(run.host)):
        counts[run.name(slice_)] += 1
        times[run.name(slice_)] += int(run.host.end_ns[slice_] - run.host.start_ns[slice_])
    assert not np.isin(run.host.kind, (Kind.KERNEL, Kind.OTHER)).any()
    return {name: (count, times[name]) for name, count in counts.items()}
