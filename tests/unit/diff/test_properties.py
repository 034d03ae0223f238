"""What must hold between any two runs."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from steps import DATA, events_of

from foretrace.diff import Change, diff
from foretrace.diff.counted import counted
from foretrace.diff.rows import rows_of
from foretrace.run import Run, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TURNED = {"fused": "split", "split": "fused", "added": "removed", "removed": "added"}
_MM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
_ALPHABET = [
    ("aten::mm", _MM, [[256, 64], [64, 128]]),
    ("aten::mm", _MM, [[256, 128], [128, 64]]),
    ("aten::mm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", [[256, 64], [64, 128]]),
    ("aten::relu", "relu_kernel", [[256, 128]]),
    ("aten::add", "add_kernel", [[256, 128], [256, 128]]),
    ("aten::add", "add_kernel", [[8]]),
    ("triton_poi_fused_add_relu_0", "triton_poi_fused_add_relu_0", None),
    ("triton_poi_fused_relu_1", "triton_poi_fused_relu_1", None),
    ("mine::rows", "_rows_kernel", [[256, 128]]),
    ("mine::rows", "_rows_kernel", None),
]
_KERNELS = st.lists(st.sampled_from(range(len(_ALPHABET))), min_size=0, max_size=9)


def _run(kernels: Sequence[int], times: Sequence[int], uneven: bool) -> Run:  # noqa: FBT001 - drawn by hypothesis
    steps = [[(*_ALPHABET[k], float(micros + 3 * k)) for k in kernels] for micros in times]
    if uneven and len(steps) > 1:
        steps[0] = steps[0][:-1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps({"traceEvents": events_of(steps)}))
        return read(path)


_RUNS = st.builds(_run, _KERNELS, st.lists(st.integers(5, 50), min_size=1, max_size=6), st.booleans())
_FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _told(change: Change) -> tuple[Any, ...]:
    return change.status, change.before, change.after, change.before_ns, change.after_ns, change.significant


def _mirrored(change: Change) -> tuple[Any, ...]:
    status, before, after, before_ns, after_ns, significant = _told(change)
    return _TURNED.get(status, status), after, before, after_ns, before_ns, significant


@_FEW
@given(_RUNS)
def test_a_run_against_itself_is_empty(run: Run) -> None:
    """Every kernel is the same, no op came or went, the ratio is 1 where there is one, and there is no verdict."""
    found = diff(run, run)
    assert found.is_empty
    assert found.comparable
    assert found.steps.ratio in {1.0, None}


@_FEW
@given(_RUNS, _RUNS)
def test_exchanging_the_runs_mirrors_the_answer(before: Run, after: Run) -> None:
    """diff(b, a) is diff(a, b) with fused ↔ split, added ↔ removed, faster ↔ slower, and all pairs turned over."""
    there, back = diff(before, after), diff(after, before)
    assert Counter(map(_told, there.changes)) == Counter(map(_mirrored, back.changes))
    assert (there.cpu_ops.removed, there.cpu_ops.added) == (back.cpu_ops.added, back.cpu_ops.removed)
    assert there.comparable == back.comparable
    assert (there.steps.before_ns, there.steps.after_ns) == (back.steps.after_ns, back.steps.before_ns)
    turned = {"faster": "slower", "slower": "faster"}
    assert there.steps.verdict == turned.get(back.steps.verdict, back.steps.verdict)


@_FEW
@given(_RUNS, _RUNS)
def test_every_kernel_has_one_place(before: Run, after: Run) -> None:
    """No row of either run is lost or counted twice, and whatever ran has a time."""
    found = diff(before, after)
    rows = rows_of(counted(before).run, counted(after).run)
    for side, expected in zip(("before", "after"), rows, strict=True):
        names = {name for change in found.changes for name in getattr(change, side)}
        assert names == {row.name for row in expected}
        assert sum(len(getattr(change, side)) for change in found.changes) == len(expected)
        assert all(getattr(c, f"{side}_ns") is not None for c in found.changes if getattr(c, side))


def _part(run: Run, chosen: slice) -> Run:
    return replace(run, steps=run.steps[chosen])


@pytest.mark.parametrize("path", sorted(DATA.glob("*/*.json.gz")), ids=lambda path: path.name.split(".")[0])
def test_two_halves_of_one_recording_are_inconclusive(path: Path) -> None:
    """The first step against the others: the same run, so never a verdict, and never other kernels by position."""
    run = read(path)
    half = len(run.steps) // 2
    found = diff(_part(run, slice(half)), _part(run, slice(half, None)))
    assert found.steps.verdict == "inconclusive"


def _noisy(built: Callable[..., Run], seed: int, factor: float) -> Run:
    """Ten steps of a GEMM and a pointwise kernel with 1 % of noise in each time."""
    draws = np.random.default_rng(seed)
    times = [40 * factor * (1 + 0.01 * float(draws.standard_normal())) for _ in range(10)]
    return built([[(*_ALPHABET[0], time), (*_ALPHABET[3], time / 4)] for time in times])


def test_noise_is_no_verdict_and_five_percent_is(built: Callable[..., Run]) -> None:
    """Of ten noisy runs of the same thing no pair differs; each differs from one that was made 5 % slower."""
    runs = [_noisy(built, seed, 1.0) for seed in range(10)]
    pairs = [diff(a, b).steps.verdict for i, a in enumerate(runs) for b in runs[i + 1 :]]
    assert Counter(pairs) == {"inconclusive": 45}
    slow = [diff(run, _noisy(built, 100 + seed, 1.05)).steps.verdict for seed, run in enumerate(runs)]
    assert Counter(slow)["slower"] >= 9


def test_halves_of_ten_steps_keep_their_kernels(built: Callable[..., Run]) -> None:
    """Five steps against the other five: two kernels, both the same, no verdict."""
    run = _noisy(built, 1, 1.0)
    found = diff(_part(run, slice(5)), _part(run, slice(5, None)))
    assert [change.status for change in found.changes] == ["same", "same"]
    assert found.steps.verdict == "inconclusive"
