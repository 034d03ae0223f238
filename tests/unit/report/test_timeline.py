"""What a timeline holds: lanes, nesting, launches, what is left out, and who stands for whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foretrace
from foretrace.report import page as page_room
from foretrace.report import window as room
from foretrace.report.page import compared, page_of
from foretrace.report.timeline import Lane, Timeline, timeline
from foretrace.report.window import representative

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

DATA = Path(__file__).parents[2] / "data"
EAGER = DATA / "h200" / "mlp_64x128x768x3072_eager.json.gz"
COMPILED = DATA / "h200" / "mlp_64x128x768x3072_compiled.json.gz"


def drawn(path: Path, **options: Any) -> Timeline:
    """The timeline of a recorded trace, which is there."""
    found = timeline(foretrace.read(path), **options)
    assert found is not None
    return found


def test_a_step_by_hand(built: Callable[..., Run]) -> None:
    """Ops lie below what encloses them, kernels on their stream, and each kernel knows the call that launched it."""
    run = built(
        ("user_annotation", "ProfilerStep#7", 100, 50, 5, {}),
        ("cpu_op", "aten::linear", 102, 20, 5, {"External id": 1}),
        ("cpu_op", "aten::mm", 104, 10, 5, {"External id": 2}),
        ("cuda_runtime", "cudaLaunchKernel", 106, 4, 5, {"correlation": 9, "External id": 2}),
        ("cpu_op", "aten::relu", 130, 5, 5, {"External id": 3}),
        ("kernel", "mystery", 120, 8, 7, {"correlation": 9, "stream": 7, "device": 0, "External id": 2}),
    )
    found = timeline(run)
    assert found is not None
    assert found.lanes == (Lane("GPU 0 stream 7", device=True, rows=1), Lane("CPU thread 5", device=False, rows=4))
    boxes = [(box.name, box.lane, box.row, box.start_ns, box.dur_ns, box.kind) for box in found.slices]
    assert boxes == [
        ("ProfilerStep#7", 1, 0, 0, 50_000, "annotation"),
        ("aten::linear", 1, 1, 2_000, 20_000, "op"),
        ("aten::mm", 1, 2, 4_000, 10_000, "op"),
        ("cudaLaunchKernel", 1, 3, 6_000, 4_000, "call"),
        ("aten::relu", 1, 1, 30_000, 5_000, "op"),
        ("mystery", 0, 0, 20_000, 8_000, "unknown"),
    ]
    kernel = found.slices[-1]
    assert kernel.launch == 3
    assert kernel.detail is not None
    assert kernel.detail.chain == ("aten::linear", "aten::mm")
    assert kernel.detail.waited_ns == 14_000
    assert kernel.detail.words == ""  # no grammar knows it, and nothing is made up
    assert (found.span_ns, found.kernels, found.left_out) == (50_000, 1, None)
    assert found.steps == (("ProfilerStep#7", 0, 50_000),)


def test_overlapping_kernels_get_rows_of_their_own(built: Callable[..., Run]) -> None:
    """Where a file has two kernels at once on one stream, neither hides the other."""
    args = {"stream": 7, "device": 0}
    run = built(("kernel", "a", 0, 10, 7, args), ("kernel", "b", 5, 10, 7, args), ("kernel", "c", 12, 2, 7, args))
    found = timeline(run)
    assert found is not None
    assert [(box.name, box.row) for box in found.slices] == [("a", 0), ("b", 1), ("c", 0)]
    assert found.lanes[0].rows == 2


def test_nothing_to_draw(built: Callable[..., Run]) -> None:
    """A file without slices has no timeline."""
    assert timeline(built()) is None


@pytest.mark.parametrize(
    ("trace", "kernels", "lanes"),
    [("h200/mlp_two_streams", 21, 4), ("h200/train_mlp_eager", 69, 3), ("two_ranks/ddp_rank0", 341, 5)],
)
def test_recorded_counts(trace: str, kernels: int, lanes: int) -> None:
    """A short trace is drawn whole: every kernel of its file, every stream and thread."""
    found = drawn(DATA / f"{trace}.json.gz")
    assert (found.kernels, len(found.lanes)) == (kernels, lanes)
    assert [lane.device for lane in found.lanes] == sorted((lane.device for lane in found.lanes), reverse=True)


def test_boxes_of_a_row_never_overlap() -> None:
    """In every row each box ends before the next begins, so that pointing at a time finds one box."""
    found = drawn(DATA / "two_ranks" / "ddp_rank0.json.gz")
    ends: dict[tuple[int, int], int] = {}
    for box in sorted(found.slices, key=lambda box: box.start_ns):
        place = box.lane, box.row
        assert box.start_ns >= ends.get(place, 0)
        ends[place] = box.start_ns + box.dur_ns
        assert ends[place] <= found.span_ns


def test_python_frames_are_left_out_and_said() -> None:
    """Python's frames are not drawn, those of modules are; the timeline says how many it left out."""
    found = drawn(DATA / "h200" / "train_mlp_eager.json.gz")
    assert found.left_out == "1,245 Python frames of the file"
    assert any(box.name.startswith("nn.Module: ") for box in found.slices)


def test_long_runs_become_one_step() -> None:
    """The step with the median GPU time stands for a run of more slices than are drawn."""
    run = foretrace.read(DATA / "h200" / "mlp_recompiles.json.gz")
    busy = [run.busy_ns(step.activities) for step in run.steps]
    position = representative(run)
    assert position is not None
    assert busy[position] == sorted(busy)[1]
    found = timeline(run)
    assert found is not None
    assert [name for name, _, _ in found.steps] == [run.steps[position].name]
    assert found.left_out == "2 other steps"


def test_long_steps_keep_their_longest_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step that is too large even so the shortest are left out, with their number and length, nested as before."""
    monkeypatch.setattr(room, "MOST_HOST", 10)
    monkeypatch.setattr(room, "MOST_DEVICE", 3)
    found = drawn(EAGER)
    assert found.kernels == 3
    assert len(found.slices) == 13
    assert [box.dur_ns for box in found.slices[10:]] == [55_743, 56_511, 50_880]
    assert found.left_out is not None
    assert "2 other steps; " in found.left_out
    assert "4 GPU events of 36.4 µs or less" in found.left_out
    assert found.slices[0].name == "ProfilerStep#3"
    assert {box.row for box in found.slices[:10]} >= {0, 1, 2, 3}


def test_events_of_other_steps_have_stand_ins() -> None:
    """An event that is not drawn leads to the drawn kernel of its group: the second GEMM to the second GEMM."""
    run = foretrace.read(EAGER)
    events = [int(run.trace.columns.index[run.activities.row[i]]) for i in run.kernels(run.steps[0].activities)]
    found = timeline(run, events, one_step=True)
    assert found is not None
    names = [box for box in found.slices if box.detail and box.detail.bound]
    assert [found.stands_for[event] for event in events] == [box.event for box in names]


def test_a_comparison_ties_what_belongs_together() -> None:
    """Gelu and mul on one side, the Triton kernel on the other: one pair, and each says what became of it."""
    runs = foretrace.read(EAGER), foretrace.read(COMPILED)
    page = compared(foretrace.diff(*runs), *runs)
    before, after = page.timelines
    assert (before.key, after.key) == ("before", "after")
    triton = next(box for box in after.slices if box.detail and box.name.startswith("triton_"))
    pair = [box.detail for box in before.slices if box.pair == triton.pair]
    assert [detail.chain[-1] for detail in pair if detail] == ["aten::gelu", "aten::mul"]
    assert triton.detail is not None
    assert triton.detail.change == "fused, was elementwise gelu (tanh) + elementwise mul; 68.8 µs → 37.1 µs a step"
    assert len({box.pair for box in before.slices if box.pair is not None}) == 4


def test_the_page_of_a_run() -> None:
    """One chain tree, five kernels with their limits, idle time that adds up to the span of the GPU."""
    run = foretrace.read(EAGER)
    page = page_of(run, foretrace.ask(run))
    assert page.kernels is not None
    assert [row["kernel"].split(",")[0] for row in page.kernels.rows] == [
        "nvjet 256×128×64",
        "elementwise gelu (tanh)",
        "nvjet 256×128×64",
        "elementwise mul",
        "nvjet 192×128×64",
    ]
    assert sum(part.ns for part in page.idle) == 1_283_343
    region = page.chains[0]
    assert (region.name, region.count) == ("mlp_fwd", 7)
    assert [child.name for child in region.children] == ["aten::linear", "aten::gelu", "aten::mul"]
    assert region.children[1].total_ns == 32_352
    assert page.roofline is not None
    assert [dtype for dtype, _ in page.roofline.roofs] == ["bf16", "f32"]
    assert page_of(run, foretrace.ask(run), told=True).answers == ()


def test_very_long_pages_say_what_they_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest kernels, events and links are kept in their order; the rest is counted."""
    monkeypatch.setattr(page_room, "MOST_KERNELS", 3)
    monkeypatch.setattr(page_room, "MOST_CHAINS", 5)
    monkeypatch.setattr(page_room, "MOST_SIBLINGS", 1)
    run = foretrace.read(EAGER)
    page = page_of(run, foretrace.ask(run))
    assert page.kernels is not None
    assert [row["kernel"].split(",")[0] for row in page.kernels.rows] == ["nvjet 256×128×64"] * 2 + ["nvjet 192×128×64"]
    assert page.kernels.more == "and 2 shorter kernels"
    assert page.chains_of == "the 5 longest GPU events of ProfilerStep#3"
    assert page.chains[0].count == 5
    assert [(node.name, node.count) for node in page.chains[0].children] == [("aten::linear", 3), ("and 2 more", 2)]
    assert page.chains[0].children[1].total_ns == 32_352 + 36_416
