from __future__ import annotations

from typing import TYPE_CHECKING, Any

from build import TraceBuilder
from mutate import mutated

from foretrace.readings import chain

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run


def test_chain_of_every_kernel_of_a_step(recorded: Callable[[str], Run]) -> None:
    """Each kernel of the step has its ops, outermost first, and the op's runtime calls up to its launch."""
    answer = chain.answer(recorded("mlp_64x128x768x3072_eager"))
    assert answer is not None
    gemm = "mlp_fwd → aten::linear → aten::matmul → aten::mm"
    assert [(row["chain"], row["calls"]) for row in answer.evidence] == [
        (gemm, "cudaMemsetAsync · cuLaunchKernelEx"),
        ("mlp_fwd → aten::gelu", "cudaLaunchKernel"),
        (gemm, "cudaMemsetAsync · cuLaunchKernelEx"),
        ("mlp_fwd → aten::mul", "cudaLaunchKernel"),
        (gemm, "cuLaunchKernelEx"),
    ]
    assert answer.sentence.startswith(f"The longest kernel comes by {gemm} → cuLaunchKernelEx → nvjet 256×128×64")


def test_two_kernels_of_one_op_keep_their_own_calls() -> None:
    """Calls before an earlier kernel's launch are not told again for the next kernel of the same op."""
    built = TraceBuilder().op("aten::sum", 0, 100).call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", 5, 2)
    built.kernel("first", 30, 5, launch=(10, 4)).call("cudaFuncSetAttribute", 20, 2)
    built.kernel("second", 50, 5, launch=(30, 4))
    answer = chain.answer(built.run())
    assert answer is not None
    assert [row["calls"] for row in answer.evidence] == [
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor · cudaLaunchKernel",
        "cudaFuncSetAttribute · cudaLaunchKernel",
    ]


def test_graph_nodes_come_by_their_graph_launch(recorded: Callable[[str], Run]) -> None:
    """A kernel inside a CUDA graph is reached by the graph's launch and claims no op of its own."""
    answer = chain.answer(recorded("mlp_64x128x768x3072_cudagraph"))
    assert answer is not None
    nodes = [row for row in answer.evidence if row["graph"]]
    assert len(nodes) == 4
    assert {row["launch"] for row in nodes} == {"cudaGraphLaunch"}
    assert not any("aten::mm" in row["chain"] for row in nodes)


def test_renamed_ops_are_followed() -> None:
    """The chain is the file's own names."""

    def renamed(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "name": "my::project"} if event.get("name") == "aten::linear" else event

    answer = chain.answer(mutated("mlp_64x128x768x3072_eager", renamed))
    assert answer is not None
    assert answer.evidence[0]["chain"] == "mlp_fwd → my::project → aten::matmul → aten::mm"


def test_silent_without_kernels_and_unknown_without_launches() -> None:
    """No kernel raises no question; a kernel whose launch is not in the file has no chain."""
    assert chain.answer(TraceBuilder().op("aten::mm", 0, 10).run()) is None
    orphan = chain.answer(TraceBuilder().op("aten::mm", 0, 10).kernel("k", 20, 5).run())
    assert orphan is not None
    assert orphan.verdict == "unknown"
