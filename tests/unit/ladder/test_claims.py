"""Claims are decided by what a run shows, and by nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from foretrace.ladder import claims
from foretrace.ladder.facts import Facts, Launched
from foretrace.names import decode

GEMM = "nvjet_tst_128x64_64x6_2x1_v_bz_TNT"
OTHER_GEMM = "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_tn_align8"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)


def launched(name: str, *, op: str = "aten::mm", call: str = "cudaLaunchKernel", queries: bool = False) -> Launched:
    """One kernel of a step."""
    return Launched(name, decode(name), op, call, queries, memsets=0)


def facts(*kernels: Launched, ops: dict[str, int] | None = None, on_gpu: bool = True) -> Facts:
    """A step with these kernels and CPU ops."""
    return Facts(
        on_gpu=on_gpu,
        kernels=kernels,
        per_step=(len(kernels),),
        ops=Counter(ops or {}),
        memsets=0,
        gpu_ns=1.0,
        cpu_ns=1.0,
    )


def verdict(claim: claims.Claim, now: Facts, **walked: Facts) -> str:
    """What becomes of ``claim`` on ``now`` after the rungs ``walked``."""
    return claim.against(now, walked).verdict


def test_a_count_of_kernels_holds_only_for_the_same_classes() -> None:
    """One GEMM is no pointwise kernel, and a second kernel breaks a guess of one."""
    assert verdict(claims.kernels(gemm=1), facts(launched(GEMM))) == "confirmed"
    assert verdict(claims.kernels(gemm=1), facts(launched(ADD))) == "broken"
    assert verdict(claims.kernels(gemm=1), facts(launched(GEMM), launched(GEMM))) == "broken"


def test_a_split_k_reduce_counts_with_its_gemm() -> None:
    """The helper kernel is named and does not break the count."""
    helper = launched("void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>)")
    finding = claims.kernels(gemm=1).against(facts(launched(GEMM), helper), {})
    assert finding.verdict == "confirmed"
    assert "1 GEMM helper" in finding.why


def test_without_a_gpu_kernels_are_unknown() -> None:
    """A CPU trace neither confirms nor breaks a claim about kernels."""
    finding = claims.kernels(gemm=1).against(facts(on_gpu=False), {})
    assert (finding.verdict, finding.why) == ("unknown", claims.NO_GPU)


def test_an_epilogue_is_broken_by_a_kernel_of_its_own() -> None:
    """A bias that is added by its own kernel is not in the GEMM's epilogue."""
    claim = claims.epilogue("bias", instead_of="aten::add")
    assert verdict(claim, facts(launched(GEMM))) == "confirmed"
    assert verdict(claim, facts(launched(GEMM), launched(ADD, op="aten::add"))) == "broken"


def test_occupancy_query_and_launch_call_are_both_needed() -> None:
    """The articles' launch is a query followed by ``cudaLaunchKernel``; either missing breaks the claim."""
    claim = claims.occupancy_launches()
    assert verdict(claim, facts(launched(OTHER_GEMM, queries=True))) == "confirmed"
    assert verdict(claim, facts(launched(OTHER_GEMM))) == "broken"
    assert verdict(claim, facts(launched(GEMM, queries=True, call="cuLaunchKernelEx"))) == "broken"


def test_an_op_is_gone_only_if_it_was_there() -> None:
    """What eager never ran cannot be gone."""
    claim = claims.gone("aten::t", "eager")
    assert verdict(claim, facts(), eager=facts(ops={"aten::t": 1})) == "confirmed"
    assert verdict(claim, facts(ops={"aten::t": 1}), eager=facts(ops={"aten::t": 1})) == "broken"
    assert verdict(claim, facts(), eager=facts()) == "unknown"
    assert verdict(claim, facts()) == "unknown"


def test_same_gemms_means_byte_for_byte() -> None:
    """One letter of the name is another kernel, and the finding shows both names."""
    claim = claims.same_gemms("eager")
    assert verdict(claim, facts(launched(GEMM)), eager=facts(launched(GEMM))) == "confirmed"
    finding = claim.against(facts(launched(OTHER_GEMM)), {"eager": facts(launched(GEMM))})
    assert finding.verdict == "broken"
    assert finding.why == f"`{GEMM}` became `{OTHER_GEMM}`"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (facts(launched("triton_poi_fused_gelu_mul_0")), "confirmed"),
        (facts(launched("triton_poi_fused_gelu_0"), launched("triton_poi_fused_mul_1")), "broken"),
        (facts(ops={"graph_0_cpp_fused_gelu_mul_0": 1}, on_gpu=False), "confirmed"),
        (facts(ops={"aten::gelu": 1, "aten::mul": 1}, on_gpu=False), "broken"),
    ],
)
def test_fused_means_one_kernel_that_names_both(now: Facts, expected: str) -> None:
    """Two generated kernels are no fusion; on a CPU the generated C++ kernel counts."""
    assert verdict(claims.fused("gelu", "mul"), now) == expected


def test_surprises_name_what_no_claim_speaks_of() -> None:
    """Memsets and other launch calls than the articles' are surprises; the expected call is none."""
    quiet = facts(launched(GEMM))
    assert claims.surprises(quiet) == ()
    loud = replace(
        facts(replace(launched(GEMM, call="cuLaunchKernelEx"), memsets=1)),
        memsets=2,
    )
    assert [text.split(":")[0] for text in claims.surprises(loud)] == [
        "1 memset a step before kernels of `aten",
        "1 memset a step that belong to no kernel's operator",
        "1 kernel launched by `cuLaunchKernelEx`, not `cudaLaunchKernel`",
    ]
