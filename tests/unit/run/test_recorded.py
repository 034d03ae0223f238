"""Every recorded trace, as an independent count in integer nanoseconds found it."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretrace.run import ROOT, Kind, read

DATA = Path(__file__).resolve().parents[2] / "data"

FILES = [*DATA.glob("h200/*.json.gz"), *DATA.glob("two_ranks/*.json.gz")]

# name: kernels, copies, sets, kernel_ns, busy_ns, span_ns, linked, streams, kernels launched in each step
COUNTS = {
    "attention_naive": (21, 3, 3, 1444565, 1638355, 2635972, 27, 1, [7, 7, 7]),
    "linear_1024x32x64_compiled": (3, 0, 0, 8096, 8096, 596892, 3, 1, [1, 1, 1]),
    "linear_1024x32x64_eager": (3, 0, 0, 8095, 8095, 180350, 3, 1, [1, 1, 1]),
    "linear_8192x4096x4096_compiled": (3, 0, 3, 1030418, 1032818, 1119858, 6, 1, [1, 1, 1]),
    "linear_8192x4096x4096_eager": (3, 0, 3, 1028950, 1031382, 1056372, 6, 1, [1, 1, 1]),
    "llama4_decode1": (558, 0, 0, 1240824, 1240824, 38507605, 558, 1, [186, 186, 186]),
    "llama4_prefill": (546, 0, 15, 3669718, 3681271, 36124094, 561, 1, [182, 182, 182]),
    "mlp_1x1x768x3072_compiled": (15, 0, 0, 38880, 38880, 1019896, 15, 1, [5, 5, 5]),
    "mlp_1x1x768x3072_cudagraph": (18, 0, 0, 43519, 43519, 568634, 18, 1, [6, 6, 6]),
    "mlp_1x1x768x3072_eager": (18, 0, 0, 41698, 41698, 616472, 18, 1, [6, 6, 6]),
    "mlp_1x1x768x3072_liger": (15, 0, 0, 42301, 42301, 1241746, 15, 1, [5, 5, 5]),
    "mlp_4x2048x2048x16384_compiled": (15, 0, 11, 8363235, 8371716, 8413507, 21, 1, [4, 4, 4]),
    "mlp_4x2048x2048x16384_cudagraph": (20, 0, 12, 9188671, 9198175, 9246428, 24, 1, [5, 5, 5]),
    "mlp_4x2048x2048x16384_eager": (20, 0, 12, 9645721, 9655930, 9707862, 24, 1, [5, 5, 5]),
    "mlp_4x2048x2048x16384_liger": (15, 0, 11, 8780693, 8790006, 8830579, 21, 1, [4, 4, 4]),
    "mlp_4x2048x2048x16384_maxautotune": (15, 0, 11, 8366531, 8375618, 8415745, 21, 1, [4, 4, 4]),
    "mlp_64x128x768x3072_compiled": (12, 0, 6, 613626, 618362, 1013686, 18, 1, [4, 4, 4]),
    "mlp_64x128x768x3072_cudagraph": (15, 0, 6, 656914, 661394, 809106, 21, 1, [5, 5, 5]),
    "mlp_64x128x768x3072_eager": (15, 0, 6, 695867, 700474, 1283343, 21, 1, [5, 5, 5]),
    "mlp_64x128x768x3072_liger": (12, 0, 6, 630901, 635508, 1140751, 18, 1, [4, 4, 4]),
    "mlp_64x128x768x3072_maxautotune": (12, 0, 0, 711544, 711544, 2174789, 12, 1, [4, 4, 4]),
    "mlp_float16": (15, 0, 6, 705307, 709691, 778648, 21, 1, [5, 5, 5]),
    "mlp_recompiles": (1879, 632, 0, 19885047, 21630727, 1916040381, 2511, 1, [621, 629, 629]),
    "mlp_sync_and_pageable_copy": (21, 6, 3, 139165, 891670, 15309727, 30, 1, [7, 7, 7]),
    "mlp_two_streams": (21, 0, 0, 168352, 168352, 1315248, 21, 3, [7, 7, 7]),
    "sdpa": (3, 0, 3, 98912, 101281, 528027, 6, 1, [1, 1, 1]),
    "train_mlp_compiled": (60, 0, 9, 2177453, 2184173, 5753283, 69, 1, [20, 20, 20]),
    "train_mlp_eager": (69, 0, 9, 2409159, 2415848, 9107963, 78, 1, [23, 23, 23]),
    "ddp_rank0": (341, 50, 39, 33495800, 27485862, 33231135, 393, 2, [105, 105, 105]),
    "ddp_rank1": (315, 39, 39, 10382435, 10607936, 29689762, 393, 2, [105, 105, 105]),
    "ddp_straggler_rank0": (342, 51, 39, 49223985, 43371680, 43803807, 393, 2, [105, 105, 105]),
    "ddp_straggler_rank1": (315, 39, 39, 10383273, 10609832, 36227358, 393, 2, [105, 105, 105]),
    "tp_rank0": (18, 3, 6, 1181535, 1209408, 6645131, 27, 2, [6, 6, 6]),
    "tp_rank1": (18, 3, 6, 9095683, 8151462, 8827940, 27, 2, [6, 6, 6]),
}


def test_every_recorded_trace_is_counted() -> None:
    """No recorded file of the two folders is left out."""
    assert {path.name.partition(".")[0] for path in FILES} == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_a_recorded_trace_is_read_to_the_nanosecond(name: str) -> None:
    """Kernels, copies, sets, their times, links, streams and steps; nothing repaired."""
    (path,) = (path for path in FILES if path.name == f"{name}.json.gz")
    run = read(path)
    run.check()
    activities = run.activities
    kinds = [int((activities.kind == kind).sum()) for kind in (Kind.KERNEL, Kind.COPY, Kind.SET)]
    kernels = run.kernels()
    kernel_ns = int((activities.end_ns - activities.start_ns)[kernels].sum())
    span_ns = int(activities.end_ns.max() - activities.start_ns.min())
    linked = int((activities.launch != ROOT).sum())
    per_step = [len(run.kernels(step.activities)) for step in run.steps]
    found = (*kinds, kernel_ns, run.busy_ns(), span_ns, linked, len(set(activities.stream.tolist())), per_step)
    assert COUNTS[name] == found
    assert not run.repaired
