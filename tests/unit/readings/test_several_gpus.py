"""Traces of which several GPUs are a part, or another one than the first of the header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from build import TraceBuilder

from foretrace.readings import ask

if TYPE_CHECKING:
    from foretrace.run import Run

_SHAPES = [[4096, 4096], [4096, 4096]]
_BF16 = ["c10::BFloat16", "c10::BFloat16"]
_GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def _listed(*names: str) -> TraceBuilder:
    return TraceBuilder(None, deviceProperties=[{"id": i, "name": name} for i, name in enumerate(names)])


def _alternating(*names: str) -> Run:
    """Two steps of 1000 µs; in each GPU 0 works 400 µs and then GPU 1 as long."""
    trace = _listed(*names)
    for number in range(2):
        at = 1000 * number
        trace.step(number, at, 950)
        for gpu, begin in enumerate((at + 100, at + 500)):
            trace.op("aten::mm", at + 10 + 20 * gpu, 15, dims=_SHAPES, types=_BF16)
            trace.kernel(_GEMM, begin, 400, launch=(at + 12 + 20 * gpu, 3), grid=[512, 1, 1], device=gpu)
    return trace.run()


def _said(run: Run, question: str) -> str:
    (answer,) = ask(run, [question])
    return answer.sentence


def test_two_gpus_are_counted_apart() -> None:
    """Each of two GPUs that take turns is idle while the other works, and the header names both."""
    run = _alternating("NVIDIA H200", "NVIDIA H200")
    assert run.device_name == "2 × NVIDIA H200"
    (bound,) = ask(run, ["bound"])
    assert bound.sentence == (
        "This file holds 2 GPUs, counted apart while profiled: GPU 0 is compute-bound, busy 800 µs of 1.40 ms (idle "
        "42.9 %); GPU 1 is compute-bound, busy 800 µs of 1.40 ms (idle 42.9 %)."
    )
    assert [(row["step"], row["busy_ns"]) for row in bound.evidence] == [("GPU 0", 800_000), ("GPU 1", 800_000)]
    assert "GPU 0 600 µs of 1.40 ms (42.9 %), GPU 1 600 µs of 1.40 ms (42.9 %)" in _said(run, "idle")


def test_utilisation_is_that_of_both() -> None:
    """275 GFLOP in 900 µs are 15.4 % of twice 989 TFLOP/s, and nothing is said to be as good as it gets."""
    said = _said(_alternating("NVIDIA H200", "NVIDIA H200"), "first")
    assert said.startswith("What to do first is unknown: the 2 GPUs of this file may wait for one another.")
    assert "utilisation is 15.4 % while profiled" in said
    assert "against the bf16 peak of 2 GPUs" in said


def test_streams_name_their_gpu() -> None:
    """Stream 7 of one GPU is not stream 7 of the other, and neither hides under the other."""
    (streams,) = ask(_alternating("NVIDIA H200", "NVIDIA H200"), ["streams"])
    assert [(row["device"], row["stream"], row["share"]) for row in streams.evidence] == [(0, 7, 1.0), (1, 7, 1.0)]
    assert streams.columns[0].header == "GPU"
    assert streams.sentence.startswith("None of the 2 streams on 2 GPUs overlaps another")


def test_parallel_gpus_add_up() -> None:
    """Two GPUs busy at the same time for 400 µs were busy for 800 µs: shares of it never exceed the whole."""
    trace = _listed("NVIDIA H200", "NVIDIA H200").step(0, 0, 950)
    for gpu in range(2):
        trace.kernel("k", 100, 400, launch=(10 + 20 * gpu, 3), device=gpu)
    assert trace.run().busy_ns() == 800_000


def test_unlike_gpus_have_no_ceilings_in_common() -> None:
    """A file of two kinds of GPU names both and prices the work as neither."""
    run = _alternating("NVIDIA A100-SXM4-80GB", "NVIDIA H200")
    assert run.device_name == "NVIDIA A100-SXM4-80GB + NVIDIA H200"
    assert run.device is None


def test_the_gpu_that_worked_is_the_one_that_counts() -> None:
    """All kernels ran on GPU 1, an H200: the A100 that the header lists first says nothing."""
    trace = _listed("NVIDIA A100-SXM4-80GB", "NVIDIA H200").step(0, 0, 100)
    run = trace.kernel("k", 30, 10, launch=(2, 3), device=1).run()
    assert run.device_name == "NVIDIA H200"
    assert run.device is not None
    assert run.device.name == "NVIDIA H200"


def test_a_header_of_other_numbers_is_taken_as_it_is() -> None:
    """Where no listed number is that of a kernel's GPU, the header's first device is the best that is known."""
    run = _listed("NVIDIA H200").step(0, 0, 100).kernel("k", 30, 10, launch=(2, 3), device=3).run()
    assert run.device is not None
    assert run.device_name == "NVIDIA H200"
