# ruff: noqa: FBT003 - PyTorch's own positional flags
"""The table against the real profiler: argument forms as Kineto writes them, results as PyTorch makes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from foretrace.ops import short_dtype, work

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from foretrace.ops import Work

    Result = torch.Tensor | tuple[torch.Tensor, ...]

F = torch.nn.functional


@dataclass(frozen=True, slots=True)
class Case:
    """One call: the op that is expected in the trace, what runs, and the tensors that it must read."""

    label: str
    op: str
    run: Callable[[], Result]
    reads: Sequence[torch.Tensor]
    class_: str = "pointwise"


def _cases() -> list[Case]:
    aten = torch.ops.aten
    gen = torch.Generator().manual_seed(7)

    def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.rand(*shape, generator=gen).to(dtype)

    x, y, row = rand(6, 5, 8), rand(6, 5, 8), rand(8)
    half, ints, flags = rand(6, 5, 8, dtype=torch.bfloat16), torch.arange(40).reshape(5, 8), rand(5, 8) > 0.5
    spiral = torch.polar(rand(4), rand(4))
    spread = rand(5, 1).expand(5, 8)
    a, b, bias = rand(7, 9), rand(9, 4), rand(4)
    p, q, batch_bias = rand(3, 7, 9), rand(3, 9, 4), rand(3, 7, 4)
    index, table = torch.tensor([[1, 0, 3], [2, 2, 1]]), rand(11, 6)
    image, kernel, kernel_bias = rand(2, 4, 10, 9), rand(6, 2, 3, 3), rand(6)
    up_kernel = rand(4, 5, 3, 3)
    scores = rand(4, 10)
    weight, shift = rand(8), rand(8)
    means, grad_image, heads = rand(6, 5, 1), rand(2, 6, 8, 7), rand(2, 3, 16, 8)
    full_kernel = rand(6, 4, 3, 3)  # ungrouped: PyTorch's counter ignores groups in the weight's gradient
    out, targets = torch.empty(6, 5, 8), torch.tensor([1, 0, 3, 2])
    return [
        Case("add", "aten::add", lambda: x + y, [x, y]),
        Case("add a row", "aten::add", lambda: x + row, [x, row]),
        Case("multiply by a number", "aten::mul", lambda: x * 3.0, [x]),
        Case("integers times a float row", "aten::mul", lambda: ints * row, [ints, row]),
        Case("bf16 plus f32", "aten::add", lambda: half + x, [half, x]),
        Case("an expanded column", "aten::mul", lambda: spread * flags, [spread[:, :1], flags]),
        Case("in place", "aten::add_", lambda: y.clone().add_(x), [x, y]),
        Case("out=", "aten::mul", lambda: torch.mul(x, y, out=out), [x, y]),
        Case("integer division", "aten::div", lambda: ints / ints, [ints, ints]),
        Case("integer square root", "aten::sqrt", ints.sqrt, [ints]),
        Case("rounded division", "aten::div", lambda: torch.div(ints, 3, rounding_mode="floor"), [ints]),
        Case("size of complex numbers", "aten::abs", spiral.abs, [spiral]),
        Case("least of a tensor", "aten::clamp_min", lambda: torch.clamp_min(x, row), [x, row]),
        Case("compare", "aten::gt", lambda: half > 0.5, [half]),
        Case("logical", "aten::logical_and", lambda: torch.logical_and(flags, ints), [flags, ints]),
        Case("power", "aten::pow", lambda: half.pow(2), [half]),
        Case("a number to a power", "aten::pow", lambda: torch.pow(2.0, x), [x]),
        Case("clamp", "aten::clamp", lambda: x.clamp(0.1, 0.9), [x]),
        Case("where", "aten::where", lambda: torch.where(flags, row, 0.0), [flags, row]),
        Case("masked fill", "aten::masked_fill_", lambda: x.masked_fill(flags[:, :1], 0.0), [x, flags[:, :1]]),
        Case("addcmul", "aten::addcmul", lambda: torch.addcmul(x, y, row, value=2), [x, y, row]),
        Case("lerp", "aten::lerp", lambda: torch.lerp(x, y, 0.3), [x, y]),
        Case("gelu", "aten::gelu", lambda: F.gelu(half, approximate="tanh"), [half]),
        Case("silu", "aten::silu", lambda: F.silu(x), [x]),
        Case("sigmoid", "aten::sigmoid", ints.sigmoid, [ints]),
        Case("gated halves", "aten::glu", lambda: F.glu(x, 2), [x]),
        Case("leaky relu", "aten::leaky_relu", lambda: F.leaky_relu(x, 0.1), [x]),
        Case("mm", "aten::mm", lambda: a @ b, [a, b], "gemm"),
        Case("transposed mm", "aten::mm", lambda: b.t() @ a.t(), [a, b], "gemm"),
        Case("bmm", "aten::bmm", lambda: torch.bmm(p, q), [p, q], "gemm"),
        Case("expanded bmm", "aten::bmm", lambda: torch.bmm(p, q[:1].expand(3, 9, 4)), [p, q[0]], "gemm"),
        Case("addmm", "aten::addmm", lambda: torch.addmm(bias, a, b), [bias, a, b], "gemm"),
        Case("addmm, beta 0", "aten::addmm", lambda: torch.addmm(bias, a, b, beta=0), [a, b], "gemm"),
        Case("baddbmm", "aten::baddbmm", lambda: torch.baddbmm(batch_bias, p, q), [batch_bias, p, q], "gemm"),
        Case("linear", "aten::linear", lambda: F.linear(p, b.t(), bias), [p, b, bias], "gemm"),
        Case("matmul with batches", "aten::matmul", lambda: torch.matmul(p, b), [p, b], "gemm"),
        Case("matrix times vector", "aten::mv", lambda: torch.mv(a, b[:, 0]), [a, b[:, 0]], "gemm"),
        Case("dot", "aten::dot", lambda: torch.dot(row, weight), [row, weight], "gemm"),
        Case(
            "grouped convolution",
            "aten::convolution",
            lambda: F.conv2d(image, kernel, kernel_bias, stride=2, padding=(1, 2), groups=2),
            [image, kernel, kernel_bias],
            "conv",
        ),
        Case(
            "dilated convolution",
            "aten::conv2d",
            lambda: F.conv2d(image[:, :2], kernel, dilation=2),
            [image[:, :2], kernel],
            "conv",
        ),
        Case(
            "transposed convolution",
            "aten::convolution",
            lambda: F.conv_transpose2d(image, up_kernel, stride=3, padding=1, output_padding=1),
            [image, up_kernel],
            "conv",
        ),
        Case("sum of all", "aten::sum", x.sum, [x], "reduction"),
        Case("sum of integers", "aten::sum", lambda: ints.int().sum(0), [ints.int()], "reduction"),
        Case("sum in f32", "aten::sum", lambda: half.sum((0, -1), dtype=torch.float32), [half], "reduction"),
        Case("sum in f64", "aten::sum", lambda: half.sum(dtype=torch.float64), [half], "reduction"),
        Case("mean", "aten::mean", lambda: x.mean(-1, keepdim=True), [x], "reduction"),
        Case("greatest of all", "aten::max", x.max, [x], "reduction"),
        Case("greatest of rows", "aten::max", lambda: x.max(1), [x], "reduction"),
        Case("where the greatest is", "aten::argmax", lambda: x.argmax(1), [x], "reduction"),
        Case("amax", "aten::amax", lambda: x.amax((0, 1)), [x], "reduction"),
        Case("any", "aten::any", lambda: flags.any(1), [flags], "reduction"),
        Case("all", "aten::all", flags.all, [flags], "reduction"),
        Case("deviation", "aten::std", lambda: x.std(2), [x], "reduction"),
        Case("variance and mean", "aten::var_mean", lambda: torch.var_mean(x, 2), [x], "reduction"),
        Case("vector norm", "aten::linalg_vector_norm", lambda: torch.linalg.vector_norm(x), [x], "reduction"),
        Case("norm of rows", "aten::linalg_vector_norm", lambda: torch.linalg.vector_norm(x, dim=1), [x], "reduction"),
        Case("log of summed exponentials", "aten::logsumexp", lambda: x.logsumexp(2), [x], "reduction"),
        Case("squared distance", "aten::mse_loss", lambda: F.mse_loss(x, y, reduction="none"), [x, y]),
        Case(
            "greatest of windows",
            "aten::max_pool2d_with_indices",
            lambda: F.max_pool2d(image, 3, 2, 1, ceil_mode=True, return_indices=True),
            [image],
            "reduction",
        ),
        Case("mean of windows", "aten::avg_pool2d", lambda: F.avg_pool2d(image, (2, 3)), [image], "reduction"),
        Case(
            "mean of regions",
            "aten::_adaptive_avg_pool2d",
            lambda: F.adaptive_avg_pool2d(image, (3, 2)),
            [image],
            "reduction",
        ),
        Case("softmax", "aten::_softmax", lambda: x.softmax(-1), [x], "softmax"),
        Case("log softmax in f32", "aten::log_softmax", lambda: half.log_softmax(-1, torch.float32), [half], "softmax"),
        Case("cumulative sum", "aten::cumsum", lambda: flags.cumsum(1), [flags], "scan"),
        Case("sort", "aten::sort", lambda: x.sort(1), [x], "sort"),
        Case("top k", "aten::topk", lambda: x.topk(3, 2), [x], "sort"),
        Case("group norm", "aten::group_norm", lambda: F.group_norm(image, 2), [image], "normalization"),
        Case(
            "layer norm",
            "aten::layer_norm",
            lambda: F.layer_norm(x, (8,), weight, shift),
            [x, weight, shift],
            "normalization",
        ),
        Case("rms norm", "aten::rms_norm", lambda: F.rms_norm(x, (8,), weight), [x, weight], "normalization"),
        Case(
            "batch norm",
            "aten::native_batch_norm",
            lambda: torch.native_batch_norm(image, None, None, None, None, True, 0.1, 1e-5),
            [image],
            "normalization",
        ),
        Case(
            "layer norm with statistics",
            "aten::native_layer_norm",
            lambda: torch.native_layer_norm(x, (5, 8), None, None, 1e-5),
            [x],
            "normalization",
        ),
        Case(
            "layer norm backward",
            "aten::native_layer_norm_backward",
            lambda: aten.native_layer_norm_backward(x, y, (8,), means, means, weight, shift, [True, True, True]),
            [x, y, means, means, weight, shift],
            "normalization",
        ),
        Case(
            "group norm with statistics",
            "aten::native_group_norm",
            lambda: torch.native_group_norm(image, None, None, 2, 4, 90, 2, 1e-5),
            [image],
            "normalization",
        ),
        Case("gelu backward", "aten::gelu_backward", lambda: aten.gelu_backward(x, y), [x, y]),
        Case("sigmoid backward", "aten::sigmoid_backward", lambda: aten.sigmoid_backward(x, y), [x, y]),
        Case("relu backward", "aten::threshold_backward", lambda: aten.threshold_backward(x, y, 0), [x, y]),
        Case(
            "softmax backward",
            "aten::_softmax_backward_data",
            lambda: aten._softmax_backward_data(x, y, -1, torch.float32),
            [x, y],
            "softmax",
        ),
        Case(
            "convolution backward",
            "aten::convolution_backward",
            lambda: aten.convolution_backward(
                grad_image, image, full_kernel, [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
            )[:2],
            [grad_image, full_kernel, grad_image, image],
            "conv",
        ),
        Case(
            "embedding backward",
            "aten::embedding_dense_backward",
            lambda: aten.embedding_dense_backward(x[:2, :3], index, 11, -1, False),
            [x[:2, :3], index],
            "gather-scatter",
        ),
        Case(
            "attention",
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            lambda: aten._scaled_dot_product_flash_attention_for_cpu(heads, heads[:, :, :7], heads[:, :, :7]),
            [heads, heads[:, :, :7], heads[:, :, :7]],
            "attention",
        ),
        Case("clone", "aten::clone", spread.clone, [spread[:, :1]], "copy"),
        Case("cast", "aten::_to_copy", lambda: x.to(torch.float16), [x], "copy"),
        Case("cast to f8", "aten::copy_", lambda: x.to(torch.float8_e4m3fn), [x], "copy"),
        Case("copy in", "aten::copy_", lambda: torch.empty(6, 5, 8, dtype=torch.int16).copy_(row), [row], "copy"),
        Case("repeat", "aten::repeat", lambda: row.repeat(3, 2), [row], "copy"),
        Case("pad", "aten::constant_pad_nd", lambda: F.pad(x, (1, 2, 0, 3)), [x], "copy"),
        Case("flip", "aten::flip", lambda: x.flip(0), [x], "copy"),
        Case("zeros", "aten::zeros", lambda: torch.zeros(3, 4, dtype=torch.float64), [], "fill"),
        Case("full", "aten::full", lambda: torch.full((3, 4), 1, dtype=torch.int32), [], "fill"),
        Case("zeros of the default type", "aten::zeros", lambda: torch.zeros(3, 4), [], "fill"),
        Case("full of an integer", "aten::full", lambda: torch.full((3, 4), 1), [], "fill"),
        Case("more zeros of one kind", "aten::new_zeros", lambda: half.new_zeros(3), [], "fill"),
        Case("random integers", "aten::randint", lambda: torch.randint(9, (3, 4)), [], "random"),
        Case("fill", "aten::fill_", lambda: torch.empty(3, 4).fill_(2), [], "fill"),
        Case("ones like", "aten::ones_like", lambda: torch.ones_like(half), [], "fill"),
        Case("normal", "aten::normal_", lambda: torch.empty(3, 4).normal_(), [], "random"),
        Case("random like", "aten::rand_like", lambda: torch.rand_like(half), [], "random"),
        Case("dropout", "aten::native_dropout", lambda: torch.native_dropout(x, 0.5, True), [x], "random"),
        Case(
            "embedding", "aten::embedding", lambda: F.embedding(index, table), [table[index], index], "gather-scatter"
        ),
        Case(
            "rows by index",
            "aten::index_select",
            lambda: table.index_select(1, index[0]),
            [table[:, index[0]], index[0]],
            "gather-scatter",
        ),
        Case("gather", "aten::gather", lambda: scores.gather(1, index), [scores[:2, :3], index], "gather-scatter"),
        Case(
            "negative log likelihood",
            "aten::nll_loss_forward",
            lambda: torch.ops.aten.nll_loss_forward(scores, targets, None, 1, -100),
            [scores[:, 0], targets],
            "reduction",
        ),
    ]


CASES = _cases()
UNCOUNTED = ("aten::mv", "aten::dot")  # by PyTorch's counter


def _outputs(result: Result) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _size(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Work | None, list[torch.Tensor]]]:
    """Every case run in one profiler session: what the table says of the exported op, and the real results."""
    results = {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as session:
        for case in CASES:
            with torch.profiler.record_function(f"case: {case.label}"):
                results[case.label] = _outputs(case.run())
    path: Path = tmp_path_factory.mktemp("profile") / "trace.json"
    session.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    spans = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("name", "").startswith("case: ")}
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    found = {}
    for case in CASES:
        start, end = spans[f"case: {case.label}"]
        args = next(e["args"] for e in ops if e["name"] == case.op and start <= e["ts"] < end)
        keys = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")
        found[case.label] = (work(case.op, *(args[key] for key in keys)), results[case.label])
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_bytes_and_results_are_those_of_the_real_call(
    case: Case, recorded: dict[str, tuple[Work | None, list[torch.Tensor]]]
) -> None:
    """Of a profiled call the table tells the class, the first result's shape and type, and the bytes both ways."""
    said, results = recorded[case.label]
    assert said is not None
    assert said.op_class == case.class_
    assert said.out_shape == tuple(results[0].shape)
    assert said.out_dtype == short_dtype(str(results[0].dtype))
    assert said.written_bytes == _size(results)
    assert said.read_bytes == _size(case.reads)
    assert said.launches is True


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.class_ in ("gemm", "conv") and c.op not in UNCOUNTED],
    ids=lambda case: case.label,
)
def test_contractions_agree_with_torch_flop_counter(
    case: Case, recorded: dict[str, tuple[Work | None, list[torch.Tensor]]]
) -> None:
    """Matrix products and convolutions count the operations that PyTorch's own counter counts."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415 - needs torch

    with FlopCounterMode(display=False) as counter:
        case.run()
    said = recorded[case.label][0]
    assert said is not None
    assert said.flops == counter.get_total_flops()
