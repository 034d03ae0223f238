from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from build import TraceBuilder
from mutate import mutated

from foretrace.readings.costs import BOUNDS, ceiling_ns, cost, costs, total
from foretrace.readings.groups import groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run

BF16 = "c10::BFloat16"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
HELPER = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, false>(int)"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
WIDE = {"grid": [1024, 1, 1], "block": [128, 1, 1]}


def _of(run: Run, position: int) -> Any:
    return cost(run, groups(run)[position].activities[0])


def test_gemm_work_is_that_of_its_shapes(recorded: Callable[[str], Run]) -> None:
    """Gate's product: 2·8192·768·3072 FLOPs, A + B + C bytes, compute-bound at 39.1 µs of bf16 peak."""
    gate = _of(recorded("mlp_64x128x768x3072_eager"), 0)
    assert (gate.flops, gate.moved_bytes, gate.dtype) == (38_654_705_664, 67_633_152, "bf16")
    assert gate.bound == "compute"
    assert gate.compute_ns == pytest.approx(39_069, abs=20)
    assert gate.memory_ns == pytest.approx(14_090, abs=1)
    assert gate.floor_ns == gate.compute_ns
    assert not gate.inferred


@pytest.mark.parametrize(("position", "moved"), [(1, 100_663_296), (3, 150_994_944)])
def test_pointwise_bytes(recorded: Callable[[str], Run], position: int, moved: int) -> None:
    """GELU reads one tensor and writes one, mul reads two: both memory-bound."""
    pointwise = _of(recorded("mlp_64x128x768x3072_eager"), position)
    assert (pointwise.moved_bytes, pointwise.bound) == (moved, "memory")


def test_memsets_get_none_of_the_work(recorded: Callable[[str], Run]) -> None:
    """The 4-byte memset before a GEMM moves 4 bytes and computes nothing."""
    run = recorded("mlp_64x128x768x3072_eager")
    memset = next(a for a in range(len(run.activities)) if run.activity(a).kind == "set")
    assert (cost(run, memset).flops, cost(run, memset).moved_bytes, cost(run, memset).bound) == (0, 4, "latency")


def test_split_k_helper_has_no_work_of_its_own(recorded: Callable[[str], Run]) -> None:
    """The product counts once, with its GEMM; its reduction is of unknown cost."""
    run = recorded("mlp_1x1x768x3072_eager")
    down, helper = groups(run)[4:]
    assert cost(run, down.activities[0]).flops == 2 * 768 * 3072
    assert helper.identity.helper_of == "gemm"
    assert (_of(run, 5).flops, _of(run, 5).moved_bytes, _of(run, 5).bound) == (None, None, "unknown")


def test_small_kernels_are_bound_by_latency(recorded: Callable[[str], Run]) -> None:
    """One row of 3072 elements is below 2 µs of work: its floor is the kernel's latency."""
    gelu = _of(recorded("mlp_1x1x768x3072_eager"), 1)
    assert (gelu.bound, gelu.floor_ns) == ("latency", 2_000.0)


def test_triton_pointwise_has_bytes_from_its_pointers(recorded: Callable[[str], Run]) -> None:
    """Two pointers of 50.3 MB, one of them overwritten: 151 MB in 37 µs, below the memory's peak, inferred."""
    fused = _of(recorded("mlp_64x128x768x3072_compiled"), 2)
    assert (fused.moved_bytes, fused.flops, fused.bound, fused.inferred) == (150_994_944, None, "memory", True)


def test_triton_kernel_with_its_own_result_counts_each_pointer_once(recorded: Callable[[str], Run]) -> None:
    """In training gate and up are kept for the backward pass: three pointers, two read, one written."""
    run = recorded("train_mlp_compiled")
    fused = next(g for g in groups(run) if g.name == "triton_poi_fused__unsafe_view_gelu_mul_0")
    assert cost(run, fused.activities[0]).moved_bytes == 150_994_944


@pytest.mark.parametrize("position", [0, 1, 3])
def test_triton_gemm_template_has_the_flops_of_its_product(recorded: Callable[[str], Run], position: int) -> None:
    """A template's operands and result are its first two pointers and its last."""
    template = _of(recorded("mlp_64x128x768x3072_maxautotune"), position)
    assert (template.flops, template.moved_bytes, template.bound) == (38_654_705_664, 67_633_152, "compute")


def test_custom_pointwise_kernels_move_their_inputs_and_a_result(recorded: Callable[[str], Run]) -> None:
    """Liger's GELU·mul reads two tensors of 50.3 MB and writes one: inferred, because no table knows its op."""
    liger = _of(recorded("mlp_64x128x768x3072_liger"), 2)
    assert (liger.moved_bytes, liger.flops, liger.bound, liger.inferred) == (150_994_944, None, "memory", True)


def test_graph_nodes_are_put_to_their_products(recorded: Callable[[str], Run]) -> None:
    """Without shapes: from the static input and the pointwise kernel's grid, labelled as inferred."""
    run = recorded("mlp_64x128x768x3072_cudagraph")
    nodes = [_of(run, position) for position in (1, 2, 4)]
    assert [node.flops for node in nodes] == [38_654_705_664] * 3
    assert all(node.inferred for node in nodes)
    assert _of(run, 3).moved_bytes == 150_994_944


def test_graph_of_another_form_stays_unknown(recorded: Callable[[str], Run]) -> None:
    """A split-K product and one short pointwise kernel say nothing about sizes."""
    run = recorded("mlp_1x1x768x3072_cudagraph")
    assert [_of(run, position).flops for position in range(1, 6)] == [None] * 5


def test_no_graph_sizes_that_would_beat_the_peak() -> None:
    """Kernels ten times as fast cannot have done that work: unknown, not 7 PFLOP/s."""

    def ten_times_as_fast(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "dur": event["dur"] / 10} if event.get("cat") == "kernel" else event

    run = mutated("mlp_64x128x768x3072_cudagraph", ten_times_as_fast)
    assert _of(run, 1).flops is None


def test_without_shapes_nothing_is_known() -> None:
    """No ``Input Dims``, no work, no bound."""

    def no_shapes(event: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in event.get("args", {}).items() if not k.startswith(("Input", "Concrete"))}
        return {**event, "args": kept} if "args" in event else event

    gate = _of(mutated("mlp_64x128x768x3072_eager", no_shapes), 0)
    assert (gate.flops, gate.moved_bytes, gate.floor_ns, gate.bound) == (None, None, None, "unknown")


def test_without_ceilings_the_work_is_known_and_the_bound_is_not(recorded: Callable[[str], Run]) -> None:
    """A device outside the catalogue has no peaks."""
    gate = _of(replace(recorded("mlp_64x128x768x3072_eager"), device=None), 0)
    assert (gate.flops, gate.compute_ns, gate.bound) == (38_654_705_664, None, "unknown")


def test_one_op_with_several_kernels_gives_its_work_to_the_one_of_its_class() -> None:
    """A product with a reduction and a layout change beside it counts once, at the product."""
    builder = TraceBuilder().op("aten::mm", 0, 100, dims=[[4096, 4096], [4096, 4096]], types=[BF16, BF16])
    builder.kernel(ADD, 10, 5, launch=(1, 2), **WIDE).kernel(GEMM, 20, 180, launch=(4, 2), **WIDE)
    builder.kernel(HELPER, 210, 2, launch=(7, 2), **WIDE)
    run = builder.run()
    assert [cost(run, kernel).flops for kernel in range(3)] == [None, 2 * 4096**3, None]


def test_one_op_with_several_launches_of_one_kernel_shares_its_work() -> None:
    """List ops launch one kernel for some tensors each: 8 MB of work over 3 blocks and 1 is 6 MB and 2 MB."""
    builder = TraceBuilder().op("aten::add", 0, 100, dims=[[500_000], [500_000]], types=["int", "int"])
    builder.kernel(ADD, 10, 5, launch=(1, 2), grid=[3, 1, 1]).kernel(ADD, 20, 5, launch=(4, 2), grid=[1, 1, 1])
    run = builder.run()
    assert [cost(run, kernel).moved_bytes for kernel in range(2)] == [4_500_000, 1_500_000]
    assert cost(run, 0).inferred


def test_copies_inside_the_device_read_and_write() -> None:
    """A device copy of 48 MB moves 96 MB in 20 µs at least; one over the link has no memory ceiling."""
    builder = TraceBuilder().copy("Memcpy DtoD (Device -> Device)", 10, 30, launch=(1, 2), bytes=48_000_000)
    run = builder.copy("Memcpy HtoD (Pinned -> Device)", 50, 900, launch=(4, 2), bytes=48_000_000).run()
    inside, link = cost(run, 0), cost(run, 1)
    assert (inside.moved_bytes, inside.memory_ns, inside.bound) == (96_000_000, 20_000.0, "memory")
    assert (link.moved_bytes, link.memory_ns, link.bound) == (48_000_000, None, "unknown")


def test_few_blocks_are_latency_whatever_the_work() -> None:
    """Four blocks on 132 SMs do not fill the device."""
    builder = TraceBuilder().op("aten::add", 0, 100, dims=[[10_000_000], [10_000_000]])
    run = builder.kernel(ADD, 10, 500, launch=(1, 2), grid=[4, 1, 1]).run()
    assert cost(run, 0).bound == "latency"


def test_totals_are_unknown_as_soon_as_one_part_is(recorded: Callable[[str], Run]) -> None:
    """A sum over a kernel without known work is no sum."""
    run = recorded("mlp_1x1x768x3072_eager")
    down, helper = (group.activities[0] for group in groups(run)[4:])
    assert total(run, [down]) == (4_718_592, 4_726_272)
    assert total(run, [down, helper]) == (None, None)
    assert ceiling_ns(run, [down, helper]) is None


@pytest.mark.parametrize("name", ["llama4_prefill", "ddp_rank0", "mlp_recompiles", "train_mlp_eager"])
def test_every_activity_has_a_bound_of_the_contract(recorded: Callable[[str], Run], name: str) -> None:
    """Bounds are codes of the promised words, and a known one has a floor of at least the latency."""
    run = recorded(name)
    every = costs(run)
    assert len(every.bound) == len(run.activities)
    assert set(every.bound.tolist()) <= set(range(len(BOUNDS)))
    floors = [cost(run, a).floor_ns for a in range(len(run.activities)) if every.bound[a]]
    assert all(floor is not None and floor >= 2_000 for floor in floors)
