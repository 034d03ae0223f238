from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_memsets_before_two_of_three_gemms(recorded: Callable[[str], Run]) -> None:
    """A 4-byte memset precedes the 256×128 GEMMs and none the 192×128 one; no purpose is invented."""
    answer = queries.answer(recorded("mlp_64x128x768x3072_eager"))
    assert answer is not None
    assert answer.sentence == (
        "A 4-byte memset precedes 2 of the 3 GEMMs a step (nvjet 256×128×64; none before nvjet 192×128×64): "
        "the library asks for it, and does not document what for."
    )
    (row,) = answer.evidence
    assert (row["call"], row["count"], row["op"], row["event"]) == ("cudaMemsetAsync", 2, "aten::mm", 95)


@pytest.mark.parametrize("variant", ["eager", "compiled", "cudagraph", "liger"])
def test_memsets_before_every_gemm_of_the_large_shape(recorded: Callable[[str], Run], variant: str) -> None:
    """At 4×2048×2048×16384 all three GEMMs have one, launched by a call or as a node of a graph."""
    answer = queries.answer(recorded(f"mlp_4x2048x2048x16384_{variant}"))
    assert answer is not None
    assert answer.sentence.startswith("A 4-byte memset precedes all 3 GEMMs a step")


def test_split_k_adds_a_kernel_and_no_memset(recorded: Callable[[str], Run]) -> None:
    """One row of input: the reduction of split-K comes by another launch call, and no GEMM has a memset."""
    answer = queries.answer(recorded("mlp_1x1x768x3072_eager"))
    assert answer is not None
    assert "launched by cudaLaunchKernelExC after its GEMM" in answer.sentence
    assert "memset" not in answer.sentence


def test_a_helper_that_is_no_split_k_is_not_called_one() -> None:
    """An epilogue kernel of cuBLASLt completes a GEMM; nothing says that K was split."""
    built = TraceBuilder().step(1, 0, 200).op("aten::addmm", 10, 150)
    built.kernel("nvjet_sm90_tst_128x128_64x6_1x2_h_bz_TNT", 40, 30, launch=(20, 8), api="cuLaunchKernelEx")
    built.kernel("void cublasLt::epilogue::impl::globalKernel<8, 32, float, float>(int)", 80, 5, launch=(40, 8))
    answer = queries.answer(built.run())
    assert answer is not None
    assert answer.sentence.endswith("is launched by cudaLaunchKernel beside its GEMM, and is part of that GEMM's work.")


def test_attention_and_reduction(recorded: Callable[[str], Run]) -> None:
    """A reduction's memset has a documented purpose, cuDNN attention's has none."""
    attention, reduction = queries.answer(recorded("sdpa")), queries.answer(recorded("mlp_sync_and_pageable_copy"))
    assert attention is not None
    assert reduction is not None
    assert "the attention kernel of each step" in attention.sentence
    assert "does not document what for" in attention.sentence
    assert "the reduction of each step (reduction sum): it zeroes the semaphores" in reduction.sentence


def test_occupancy_query_of_an_ampere_gemm() -> None:
    """An occupancy query before a GEMM is put to that GEMM, with what the runtime's reference says it asks."""
    built = TraceBuilder("NVIDIA A100-SXM4-80GB").step(1, 0, 200).op("aten::mm", 10, 150)
    built.call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 20, 3)
    built.kernel("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", 60, 30, launch=(30, 8))
    answer = queries.answer(built.run())
    assert answer is not None
    assert "asks how many blocks of a kernel fit on an SM at once" in answer.sentence
    assert answer.evidence[0]["before"] == "cublas 128×64×64, 3 stages, bf16→bf16"
    assert answer.evidence[0]["cpu_ns"] == 3_000


def test_an_unknown_query_gets_no_purpose() -> None:
    """A call that nothing public explains is counted and left unexplained."""
    built = TraceBuilder().step(1, 0, 200).op("aten::mm", 10, 150).call("cudaGetSomethingNew", 20, 3)
    built.call("cudaStreamIsCapturing", 24, 1).kernel("k", 60, 30, launch=(30, 8))
    answer = queries.answer(built.run())
    assert answer is not None
    assert {row["call"]: row["why"] for row in answer.evidence} == {
        "cudaGetSomethingNew": None,
        "cudaStreamIsCapturing": "asks whether the stream is being captured into a graph",
    }
    assert "cudaGetSomethingNew" not in answer.sentence


@pytest.mark.parametrize("name", ["linear_1024x32x64_eager", "mlp_64x128x768x3072_maxautotune"])
def test_silent_without_extra_calls(recorded: Callable[[str], Run], name: str) -> None:
    """A trace whose every call launches a kernel raises no such question."""
    assert queries.answer(recorded(name)) is None


def test_removed_memsets_and_other_sizes_are_followed() -> None:
    """With the memsets gone the answer is silent; with other bytes it names them."""

    def without(event: dict[str, Any]) -> dict[str, Any] | None:
        return None if event.get("cat") == "gpu_memset" or event.get("name") == "cudaMemsetAsync" else event

    def larger(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("cat") == "gpu_memset":
            return {**event, "args": {**event["args"], "bytes": 1024}}
        return event

    assert queries.answer(mutated("mlp_64x128x768x3072_eager", without)) is None
    answer = queries.answer(mutated("mlp_64x128x768x3072_eager", larger))
    assert answer is not None
    assert answer.sentence.startswith("A 1,024-byte memset precedes 2 of the 3 GEMMs")
