"""The fused gated MLP on a CUDA device, against fp64 on the same values.

Tolerances: ``_error`` is the norm of the difference over the norm of the reference. One rounding to bf16 gives
2^-8 / sqrt(12) / (mean of the mantissa's share) = 1.7e-3. Eager rounds gate, up, the activation and the product before
the last sum; a fused path rounds gate and up at most, and h. Each path must be no worse than 1.1 times eager's own
error: the factor covers the luck of the draw.
"""

from __future__ import annotations

import importlib
import itertools
import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention
from torch.utils.checkpoint import checkpoint

from foretrace.fused import ACTIVATIONS, GatedMLP, GeGLUMLP, gated_mlp, geglu, glu, plan, reference, replace, swiglu
from foretrace.fused.schedule import schedule

triton = pytest.importorskip("triton", reason="no Triton")


def _interpreted() -> bool:
    """Whether the kernels were defined under TRITON_INTERPRET, by this process's environment or by other tests."""
    if not torch.cuda.is_available():
        return False
    kernels = importlib.import_module("foretrace.fused.kernels.pointwise")
    return type(kernels.foretrace_glu).__name__ == "InterpretedFunction"


HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    # cuBLAS says so when the backward's thread is the first to call it, and then sets the context
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),
    pytest.mark.skipif(_interpreted(), reason="this process interprets Triton's kernels on the CPU"),
]
needs_hopper = pytest.mark.skipif(not HOPPER, reason="needs an sm_90 device")


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


def _tensors(rows: int, dim: int, hidden: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    torch.manual_seed(rows + dim + hidden)
    shapes = (((rows, dim), 1), ((hidden, dim), dim), ((hidden, dim), dim), ((dim, hidden), hidden))
    return [(torch.randn(s, device="cuda") / n**0.5).to(dtype).requires_grad_() for s, n in shapes]


def _both(tensors: list[torch.Tensor], activation: str, path: str) -> tuple[list[torch.Tensor], ...]:
    """Output and gradients by ``path``, by eager in the same dtype, and in fp64."""
    dy = torch.randn_like(tensors[0])
    results = []
    for given in (tensors, tensors, [t.detach().double().requires_grad_() for t in tensors]):
        with plan.forced(path):
            function = gated_mlp if not results else reference.gated_mlp
            y = function(*given, activation=activation)
            results.append([y, *torch.autograd.grad(y, given, dy.to(y.dtype))])
    return tuple(results)


PATHS = ["pointwise", pytest.param("fused", marks=needs_hopper)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("shape", "dtype", "activation"),
    [
        ((384, 512, 1024), torch.bfloat16, "gelu"),
        ((1000, 776, 1032), torch.bfloat16, "gelu_tanh"),
        ((129, 64, 8), torch.bfloat16, "silu"),
        ((384, 512, 1024), torch.float16, "silu"),
    ],
)
def test_training(shape: tuple[int, int, int], dtype: torch.dtype, activation: str, path: str) -> None:
    """Output and all four gradients are no further from fp64 than 1.1 times eager is."""
    found, eager, exact = _both(_tensors(*shape, dtype), activation, path)
    for name, ours, plain, wanted in zip(("y", "dx", "dgate", "dup", "ddown"), found, eager, exact, strict=True):
        assert _error(ours, wanted) <= 1.1 * _error(plain, wanted), name


@pytest.mark.parametrize("path", ["rows", pytest.param("rows_tma", marks=needs_hopper)])
@pytest.mark.parametrize("rows", [1, 5, 16, 33, 64])
def test_few_rows(rows: int, path: str) -> None:
    """1 to 64 rows are no further from fp64 than 1.1 times eager, and twenty calls give the same bits."""
    tensors = [t.detach() for t in _tensors(rows, 768, 3080)]
    wanted = reference.gated_mlp(*(t.double() for t in tensors), activation="gelu_tanh")
    plain = reference.gated_mlp(*tensors, activation="gelu_tanh")
    with plan.forced(path):
        calls = [gated_mlp(*tensors, activation="gelu_tanh") for _ in range(20)]
    assert _error(calls[0], wanted) <= 1.1 * _error(plain, wanted)
    assert all(torch.equal(calls[0], y) for y in calls)


@pytest.mark.parametrize("path", PATHS)
def test_every_element_is_written(path: str) -> None:
    """Outputs allocated over NaN hold none afterwards: sizes just past a tile in every direction."""
    tensors = [t.detach() for t in _tensors(257, 136, 264)]
    torch.full((1 << 24,), math.nan, device="cuda")
    with plan.forced(path):
        assert gated_mlp(*tensors, activation="silu").isfinite().all()


@pytest.mark.parametrize("shape", [(37, 127, 431), (1, 127, 431), (64, 768, 431)])
def test_odd_sizes(shape: tuple[int, int, int]) -> None:
    """Rows that do not start on 16 bytes work by a path that can serve them."""
    tensors = [t.detach() for t in _tensors(*shape)]
    wanted = reference.gated_mlp(*(t.double() for t in tensors), activation="gelu")
    plain = reference.gated_mlp(*tensors, activation="gelu")
    assert _error(gated_mlp(*tensors, activation="gelu"), wanted) <= 1.1 * _error(plain, wanted)


def test_fp32_is_not_tf32() -> None:
    """fp32 keeps its precision: TF32 would leave an error near 3e-4."""
    tensors = [t.detach() for t in _tensors(256, 512, 1024, torch.float32)]
    wanted = reference.gated_mlp(*(t.double() for t in tensors), activation="silu")
    assert _error(gated_mlp(*tensors, activation="silu"), wanted) < 2e-6


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_pointwise_elementwise(activation: str) -> None:
    """Every bf16 gate from -9 to 9 is within one bf16 ulp of fp64, or within 2e-7 where the value is that small."""
    gate = torch.arange(-9, 9, 1 / 64, device="cuda", dtype=torch.bfloat16)
    up = torch.full_like(gate, 1.5)
    found = reference.glu(gate.double(), up.double(), activation)
    difference = (glu(gate, up, activation=activation).double() - found).abs()
    assert (difference <= found.abs() * 2**-8 + 2e-7).all()


def test_more_than_two_to_the_31_elements() -> None:
    """Offsets are 64-bit: the last elements of 2^31 + 4096 are right."""
    gate = torch.zeros(2**31 + 4096, dtype=torch.bfloat16, device="cuda")
    gate[-4096:] = 1.0
    out = swiglu(gate, gate)
    assert out[-1].item() == pytest.approx(0.7310586, rel=2**-8)
    assert out[0].item() == 0


def test_seventy_thousand_rows() -> None:
    """More rows than grid y and z hold."""
    gate = torch.randn(70000, 24, device="cuda", dtype=torch.bfloat16)[:, :12]
    assert _error(swiglu(gate, gate), F.silu(gate.double()) * gate.double()) < 2e-3


def test_no_rows_and_the_next_call() -> None:
    """An empty batch gives empty gradients, zeros for the weights, and leaves the device well."""
    tensors = _tensors(0, 64, 128)
    gated_mlp(*tensors, activation="silu").sum().backward()
    assert tensors[0].grad is not None
    assert tensors[0].grad.shape == (0, 64)
    assert all(t.grad is not None and not t.grad.any() for t in tensors[1:])
    assert torch.ones(3, device="cuda").sum().item() == 3


@pytest.mark.parametrize("path", PATHS)
def test_two_backwards_of_one_graph_agree_bitwise(path: str) -> None:
    """``retain_graph`` works, saved tensors are not written to, and sums have one order."""
    tensors = _tensors(512, 256, 512)
    with plan.forced(path):
        y = gated_mlp(*tensors, activation="gelu")
        dy = torch.randn_like(y)
        first = torch.autograd.grad(y, tensors, dy, retain_graph=True)
        second = torch.autograd.grad(y, tensors, dy)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("path", PATHS)
def test_frozen_inputs(path: str) -> None:
    """Every subset of wanted gradients: the wanted ones equal those of the full set, the others are None."""
    everything = _tensors(256, 128, 256)
    with plan.forced(path):
        y = gated_mlp(*everything, activation="silu")
        full = torch.autograd.grad(y, everything, torch.ones_like(y))
        for wanted in itertools.product((False, True), repeat=4):
            if not any(wanted):
                continue
            given = [t.detach().requires_grad_(w) for t, w in zip(everything, wanted, strict=True)]
            y = gated_mlp(*given, activation="silu")
            y.backward(torch.ones_like(y))
            for tensor, want, expected in zip(given, wanted, full, strict=True):
                assert (tensor.grad is not None) == want
                assert tensor.grad is None or _error(tensor.grad, expected) < 1e-2


def test_autocast() -> None:
    """fp32 weights under bf16 autocast: a bf16 result and fp32 gradients."""
    layer = GeGLUMLP(128, 256, device="cuda")
    x = torch.randn(4, 32, 128, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert layer.gate_proj.weight.grad is not None
    assert layer.gate_proj.weight.grad.dtype == torch.float32
    assert x.grad is not None
    assert x.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore")
def test_compiled_without_a_break() -> None:
    """``fullgraph=True`` compiles training and gives eager calls' bits."""
    layer = GatedMLP(256, 512, activation="silu", device="cuda", dtype=torch.bfloat16)
    x = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    expected = torch.autograd.grad(layer(x).sum(), x)[0]
    found = torch.autograd.grad(torch.compile(layer, fullgraph=True)(x).sum(), x)[0]
    assert torch.equal(found, expected)


def test_activation_checkpointing() -> None:
    """Recomputed in the backward, gradients are the same bits."""
    tensors = _tensors(512, 256, 512)
    expected = torch.autograd.grad(gated_mlp(*tensors, activation="silu").sum(), tensors)
    y = checkpoint(lambda *t: gated_mlp(*t, activation="silu"), *tensors, use_reentrant=False)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(y.sum(), tensors), expected, strict=True))


@pytest.mark.parametrize("shape", [(1, 768, 3072), (64, 768, 3072), (512, 768, 3072)])
def test_inside_a_cuda_graph(shape: tuple[int, int, int]) -> None:
    """A captured call replays on new inputs."""
    tensors = [t.detach() for t in _tensors(*shape)]
    gated_mlp(*tensors, activation="gelu")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = gated_mlp(*tensors, activation="gelu")
    tensors[0].copy_(torch.randn_like(tensors[0]))
    graph.replay()
    assert torch.equal(y, gated_mlp(*tensors, activation="gelu"))


def _whole(rows: int, dim: int, hidden: int, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    """Tensors that one kernel serves where a device has as many multiprocessors as an H200."""
    order = schedule(rows, dim, hidden, torch.cuda.get_device_properties(0).multi_processor_count)
    if order is None:
        pytest.skip("this device takes two kernels")
    return [t.detach() for t in _tensors(rows, dim, hidden, dtype)]


@needs_hopper
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((8155, 768, 1536), torch.bfloat16), ((6000, 768, 3072), torch.float16), ((4000, 2048, 4096), torch.bfloat16)],
)
def test_one_kernel(shape: tuple[int, int, int], dtype: torch.dtype, activation: str) -> None:
    """A forward that keeps nothing is no further from fp64 than 1.1 times eager, and fifty calls give the same bits."""
    tensors = _whole(*shape, dtype)
    wanted = reference.gated_mlp(*(t.double() for t in tensors), activation=activation)
    plain = reference.gated_mlp(*tensors, activation=activation)
    with plan.forced("fused"):
        calls = [gated_mlp(*tensors, activation=activation) for _ in range(50)]
    assert _error(calls[0], wanted) <= 1.1 * _error(plain, wanted)
    assert all(torch.equal(calls[0], y) for y in calls)


@needs_hopper
@pytest.mark.filterwarnings("ignore")
def test_one_kernel_in_compiled_graphs() -> None:
    """Compiled into CUDA graphs, whose pool may hold nothing between calls: the same bits, call after call."""
    layer = GatedMLP(768, 3072, activation="silu", device="cuda", dtype=torch.bfloat16)
    graphed = torch.compile(layer, mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(8192, 768, device="cuda", dtype=torch.bfloat16)
            assert torch.equal(graphed(x), layer(x))


@needs_hopper
@pytest.mark.parametrize("captured", [False, True], ids=["calls", "graphs"])
def test_one_kernel_on_two_streams(captured: bool) -> None:  # noqa: FBT001 - a parameter
    """Two streams with data of their own, as calls or as graphs of one capture stream: none counts for the other."""
    inputs = [_whole(8155, 768, 1536), _whole(8192, 768, 1536)]
    streams = [torch.cuda.Stream() for _ in inputs]
    with plan.forced("fused"):
        expected = [gated_mlp(*tensors, activation="silu") for tensors in inputs]
        torch.cuda.synchronize()
        graphs, results = [torch.cuda.CUDAGraph() for _ in inputs], list[torch.Tensor]()
        for graph, tensors in zip(graphs, inputs, strict=True) if captured else ():
            with torch.cuda.graph(graph):
                results.append(gated_mlp(*tensors, activation="silu"))
        for _ in range(20):
            for stream, graph, tensors in zip(streams, graphs, inputs, strict=True):
                with torch.cuda.stream(stream):
                    if captured:
                        graph.replay()
                    else:
                        results.append(gated_mlp(*tensors, activation="silu"))
        torch.cuda.synchronize()
    assert len(results) == (2 if captured else 40)
    assert all(torch.equal(y, expected[i % 2]) for i, y in enumerate(results))


@needs_hopper
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_forward_is_one_kernel_or_two() -> None:
    """Keeping nothing, the whole MLP is one; for a backward, the gated GEMM and cuBLAS, with x, gate and up saved."""
    tensors = _tensors(8192, 768, 3072)
    sizes: list[int] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if not any(tensor is t for t in tensors[1:]):
            sizes.append(tensor.numel() * tensor.element_size())
        return tensor

    found: dict[bool, list[str]] = {}
    with plan.forced("fused"):
        for grad in (False, True):
            with torch.set_grad_enabled(grad):
                gated_mlp(*tensors, activation="gelu_tanh")
                with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                    gated_mlp(*tensors, activation="gelu_tanh")
                    torch.cuda.synchronize()
            kernels = [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
            found[grad] = [name for name in kernels if "Memset" not in name]
        with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            gated_mlp(*tensors, activation="gelu_tanh")
    assert found[False] == ["foretrace_gated_forward"]
    assert [name.startswith("foretrace_gated_forward") for name in found[True]] == [True, False]
    # 8192 x 768 and twice 8192 x 3072 elements of two bytes
    assert sum(sizes) <= 113_246_208


def test_a_new_batch_size_compiles_nothing() -> None:
    """Rows are a runtime argument: after one call, other row counts find every kernel compiled."""
    tensors = [t.detach() for t in _tensors(8192, 768, 1536)]
    compiled: list[str] = []
    for path in ("pointwise", "fused") if HOPPER else ("pointwise",):
        with plan.forced(path):
            gated_mlp(*tensors, activation="silu")
            triton.knobs.runtime.jit_cache_hook = lambda **found: compiled.append(found["fn"].name)
            try:
                for rows in (8000, 4000, 3333, 1000, 129):
                    gated_mlp(tensors[0][:rows], *tensors[1:], activation="silu")
            finally:
                triton.knobs.runtime.jit_cache_hook = None
    assert compiled == []


def test_launch_hooks_hear_every_launch() -> None:
    """A second call goes straight to the driver, but for a hook, say a profiler's, that wants to hear of launches."""
    tensors = [t.detach() for t in _tensors(4096, 256, 512)]
    heard: list[str] = []

    def hook(metadata: Any) -> None:
        heard.append(metadata.get()["name"])

    if not hasattr(triton.knobs.runtime.launch_enter_hook, "add"):
        pytest.skip("this Triton has no chain of hooks")
    silent = gated_mlp(*tensors, activation="silu")
    triton.knobs.runtime.launch_enter_hook.add(hook)
    try:
        y = gated_mlp(*tensors, activation="silu")
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(hook)
    assert torch.equal(y, silent)
    assert heard
    assert all(name.startswith("foretrace_") for name in heard)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_another_device_than_the_current_one() -> None:
    """Tensors on cuda:1 while cuda:0 is current."""
    tensors = [t.detach().to("cuda:1") for t in _tensors(64, 128, 256)]
    y = gated_mlp(*tensors, activation="silu")
    assert y.device == torch.device("cuda:1")
    assert _error(y, reference.gated_mlp(*(t.double() for t in tensors), activation="silu")) < 1e-2


def test_a_swapped_model_gives_the_same_logits() -> None:
    """``replace`` on a CUDA module with tanh GELU: found, replaced, and no further from fp64 than 1.1 times before."""

    class Stranger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w1, self.w3 = (torch.nn.Linear(256, 512, bias=False) for _ in range(2))
            self.w2 = torch.nn.Linear(512, 256, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.w2(F.gelu(self.w1(x), approximate="tanh") * self.w3(x))

    model = torch.nn.Sequential(Stranger()).to("cuda", torch.bfloat16)
    x = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
    before = model(x)
    exact = model.double()(x.double())
    model.bfloat16()
    swap = replace(model)
    assert [(r.name, r.activation) for r in swap.replaced] == [("0", "gelu_tanh")]
    assert _error(swap.model(x), exact) <= 1.1 * _error(before, exact)


def test_geglu_on_halves_of_a_packed_projection() -> None:
    """Row strides of twice the width, bf16: one rounding from fp64."""
    gate, up = torch.randn(512, 2048, device="cuda", dtype=torch.bfloat16).chunk(2, -1)
    assert _error(geglu(gate, up), F.gelu(gate.double()) * up.double()) < 2e-3
