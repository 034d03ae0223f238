"""The gated MLP and its layers: values, gradients, and everything around a call, in Triton's interpreter."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from foretrace.fused import ACTIVATIONS, GatedMLP, GeGLUMLP, SwiGLUMLP, gated_mlp, ops, paths, plan, reference
from foretrace.ops import work

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")


def _tensors(rows: int = 6, dim: int = 10, hidden: int = 14, *, bias: bool = False) -> list[Tensor]:
    shapes = [(rows, dim), (hidden, dim), (hidden, dim), (dim, hidden)]
    return [torch.randn(s, requires_grad=True) for s in shapes + [(hidden,), (hidden,), (dim,)] * bias]


def _exact(tensors: list[Tensor], activation: str, dy: Tensor) -> tuple[Tensor, ...]:
    """Output and gradients of the plain formula in fp64."""
    given = [t.detach().double().requires_grad_() for t in tensors]
    y = reference.gated_mlp(*given, activation=activation)
    return y.detach(), *torch.autograd.grad(y, given, dy.double())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_value_and_every_gradient(activation: str, bias: bool) -> None:  # noqa: FBT001 - a parameter
    """In fp32 the output and the gradients of x, weights and biases agree with fp64 to 1e-6 of their norm."""
    tensors = _tensors(bias=bias)
    y = gated_mlp(*tensors, activation=activation)
    dy = torch.randn_like(y)
    found = (y.detach(), *torch.autograd.grad(y, tensors, dy))
    for ours, wanted in zip(found, _exact(tensors, activation, dy), strict=True):
        assert (ours - wanted).norm() <= 1e-6 * wanted.norm()


def test_frozen_inputs_get_nothing_and_cost_nothing() -> None:
    """For each of the 15 subsets of wanted gradients, the wanted ones equal the full set's, and GEMMs are counted.

    A backward needs one product for dH unless only down is wanted, two for dx, one for gate's and up's weights
    together or for one of them, and one for down's.
    """
    everything = _tensors()
    y = gated_mlp(*everything, activation="silu")
    full = torch.autograd.grad(y, everything, torch.ones_like(y))
    for wanted in itertools.product((False, True), repeat=4):
        if not any(wanted):
            continue
        given = [t.detach().requires_grad_(w) for t, w in zip(everything, wanted, strict=True)]
        y = gated_mlp(*given, activation="silu")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            y.backward(torch.ones_like(y))
        for tensor, want, expected in zip(given, wanted, full, strict=True):
            assert (tensor.grad is not None) == want
            if tensor.grad is not None:
                torch.testing.assert_close(tensor.grad, expected)
        x, gate, up, down = wanted
        products = (x or gate or up) + 2 * x + (gate or up) + down
        counted = sum(e.count for e in profile.key_averages() if e.key in ("aten::mm", "aten::addmm_"))
        assert counted == products, wanted


def test_no_rows() -> None:
    """An empty batch gives an empty output, an empty gradient, and zeros for the weights."""
    tensors = _tensors(rows=0)
    gated_mlp(*tensors, activation="silu").sum().backward()
    assert tensors[0].grad is not None
    assert tensors[0].grad.shape == (0, 10)
    for weight in tensors[1:]:
        assert weight.grad is not None
        assert weight.grad.shape == weight.shape
        assert not weight.grad.any()


def test_leading_dimensions_and_strides() -> None:
    """[3, 2, dim] transposed and a single vector give what the flattened rows give."""
    x, *weights = _tensors()
    rows = gated_mlp(x, *weights, activation="relu")
    boxed = gated_mlp(x.view(2, 3, 10).transpose(0, 1), *weights, activation="relu")
    assert boxed.shape == (3, 2, 10)
    torch.testing.assert_close(boxed.transpose(0, 1).reshape(6, 10), rows)
    torch.testing.assert_close(gated_mlp(x[4], *weights, activation="relu"), rows[4])


def test_two_backwards_of_one_graph_agree_bitwise() -> None:
    """Nothing saved is written to: ``retain_graph`` and a second pass give the same bits."""
    tensors = _tensors()
    y = gated_mlp(*tensors, activation="gelu")
    dy = torch.randn_like(y)
    first = torch.autograd.grad(y, tensors, dy, retain_graph=True)
    gc.collect()
    second = torch.autograd.grad(y, tensors, dy)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def _overwrites(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A record of which backwards may write over gate's and up's outputs, filled while they run as ever."""
    record: list[bool] = []
    backward = paths.backward

    def noting(*args: Any, overwrite: bool = False) -> paths.Gradients:
        record.append(overwrite)
        return backward(*args, overwrite=overwrite)

    monkeypatch.setattr(paths, "backward", noting)
    return record


def test_memory_nobody_reads_again_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gate's and up's gradients take the place of their outputs, but while the graph is kept they do not."""
    record = _overwrites(monkeypatch)
    tensors = _tensors()
    y = gated_mlp(*tensors)
    gc.collect()  # the interpreter's own references
    dy = torch.randn_like(y)
    first = torch.autograd.grad(y, tensors, dy, retain_graph=True)
    gc.collect()
    second = torch.autograd.grad(y, tensors, dy)
    assert record == [False, True]
    assert all(map(torch.equal, first, second))


@pytest.mark.parametrize("way", ["a hook", "a reader", "a view", "a storage"])
def test_saved_tensors_that_others_hold_stay_as_they_are(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who packed, read or detached a saved tensor, or keeps its storage, finds in it what the forward saved."""
    record = _overwrites(monkeypatch)
    tensors = _tensors()
    held: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        held.append(tensor)
        return tensor

    if way == "a hook":
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            y = gated_mlp(*tensors)
    else:
        y = gated_mlp(*tensors)
        assert y.grad_fn is not None
        held += y.grad_fn.saved_tensors  # type: ignore[attr-defined] # of a function written in Python
    if way == "a view":
        held = [t.detach() for t in held]
    if way == "a storage":
        held = [t.untyped_storage() for t in held]
    before = [list(t.tolist()) for t in held]
    torch.autograd.grad(y, tensors, torch.randn_like(y))
    assert record == [False]
    assert [list(t.tolist()) for t in held] == before


def test_memory_that_a_hook_lent_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array that a hook packed the tensor into, over the same memory, still holds what the forward saved."""
    record = _overwrites(monkeypatch)
    tensors = _tensors()
    held = []

    def pack(tensor: Tensor) -> Any:
        held.append(tensor.detach().numpy())
        return held[-1]

    with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
        y = gated_mlp(*tensors)
    before = [array.copy() for array in held]
    torch.autograd.grad(y, tensors, torch.randn_like(y))
    assert record == [False]
    assert all((array == copy).all() for array, copy in zip(held, before, strict=True))


def test_a_hook_may_give_other_strides_back() -> None:
    """Saved tensors that come back column by column have the same gradients."""
    tensors = _tensors()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.t().contiguous(), lambda t: t.t()):
        y = gated_mlp(*tensors)
    plain = gated_mlp(*tensors)
    dy = torch.randn_like(y)
    found, expected = torch.autograd.grad(y, tensors, dy), torch.autograd.grad(plain, tensors, dy)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_what_comes_back_from_the_cpu_is_right() -> None:
    """Offloaded activations are copied back for the backward."""
    tensors = _tensors()
    with torch.autograd.graph.save_on_cpu():
        y = gated_mlp(*tensors)
    plain = gated_mlp(*tensors)
    dy = torch.randn_like(y)
    assert all(map(torch.equal, torch.autograd.grad(y, tensors, dy), torch.autograd.grad(plain, tensors, dy)))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_second_derivative_is_refused(compiled: bool) -> None:  # noqa: FBT001 - a parameter
    """``create_graph`` alone works; a backward through its result raises, eager and through the operators."""
    tensors = _tensors()
    if compiled:
        y = ops.mlp_forward(*tensors, None, None, None, "silu", True)[0]  # noqa: FBT003 - the operator's schema
    else:
        y = gated_mlp(*tensors, activation="silu")
    (dx,) = torch.autograd.grad(y.sum(), tensors[0], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        dx.sum().backward()


def test_a_second_derivative_of_named_inputs_is_refused() -> None:
    """Also where the engine walks to some inputs alone, and through the saved tensors."""
    tensors = _tensors()

    def penalty(inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
        y = gated_mlp(*tensors)
        (dx,) = torch.autograd.grad(y.sum(), inputs[:1], create_graph=True)
        return y.sum(), dx.pow(2).sum()

    loss, square = penalty(tensors)
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(loss + square, tensors)
    loss, square = penalty(tensors)
    with pytest.raises(RuntimeError, match="differentiable once"):
        (loss + square).backward(inputs=tensors)  # type: ignore[no-untyped-call] # PyTorch's own
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.functional.hessian(lambda x: gated_mlp(x, *tensors[1:]).sum(), tensors[0].detach())


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=7))[1:])
def test_every_second_derivative_is_refused(wanted: tuple[bool, ...]) -> None:
    """Whatever is trained, a first derivative with ``create_graph`` is right, and a second one of any of it raises."""
    tensors = [t.detach().requires_grad_(w) for t, w in zip(_tensors(bias=True), wanted, strict=True)]
    asked = [t for t in tensors if t.requires_grad]
    first = torch.autograd.grad(gated_mlp(*tensors).pow(2).sum(), asked, create_graph=True)
    plain = torch.autograd.grad(reference.gated_mlp(*tensors, activation="gelu").pow(2).sum(), asked, create_graph=True)
    for one, other in zip(first, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    penalty = sum(g.pow(2).sum() for g in first)
    for tensor in asked:
        with pytest.raises(RuntimeError, match="differentiable once"):
            torch.autograd.grad(penalty, tensor, retain_graph=True)
    first[0].mul_(2)  # as hooks on gradients do


def test_forward_mode_takes_the_plain_formula() -> None:
    """A tangent goes through as through the reference."""
    tensors = [t.detach() for t in _tensors()]
    tangent = torch.randn_like(tensors[0])
    found = torch.func.jvp(lambda x: gated_mlp(x, *tensors[1:]), (tensors[0],), (tangent,))
    expected = torch.func.jvp(
        lambda x: reference.gated_mlp(x, *tensors[1:], activation="gelu"), (tensors[0],), (tangent,)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert found[1].norm() > 0


def test_the_portable_kernel_saves_what_a_backward_reads() -> None:
    """Its gradients, by a path that a table may pick elsewhere than on Hopper."""
    tensors = _tensors()
    dy = torch.randn(6, 10)
    with plan.forced("portable"):
        found = torch.autograd.grad(gated_mlp(*tensors), tensors, dy)
    expected = torch.autograd.grad(reference.gated_mlp(*tensors, activation="gelu"), tensors, dy)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("portable", [("gated_forward", 5), ("pointwise_backward", 4)]),
        ("pointwise", [("pointwise", 2), ("pointwise_backward", 4)]),
        ("rows", [("gate_up", 3), ("down", 2)]),
    ],
)
def test_a_profiler_sees_ops_with_shapes(path: str, expected: list[tuple[str, int]]) -> None:
    """The kernels are launched past the dispatcher; a trace has an op for each all the same, and what it costs."""
    tensors = [t.detach().requires_grad_(path != "rows") for t in _tensors(16, 32, 64)]
    with plan.forced(path), profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        y = gated_mlp(*tensors, activation="silu")
        if y.requires_grad:
            y.sum().backward()
    seen = [(e.name, e.input_shapes) for e in profiler.events() if e.name.startswith("foretrace::")]
    assert [(name, len(list(filter(None, shapes)))) for name, shapes in seen] == [
        (f"foretrace::{name}", count) for name, count in expected
    ]
    for name, shapes in seen:
        cost = work(name, shapes, ["float"] * len(shapes))
        assert cost is not None
        assert cost.flops is not None
        assert cost.moved_bytes is not None


def test_fp64_differentiates_twice() -> None:
    """Double precision runs as plain PyTorch, second derivatives included."""
    given = [t.detach().double().requires_grad_() for t in _tensors(2, 3, 4)]
    assert torch.autograd.gradgradcheck(lambda *t: gated_mlp(*t, activation="silu"), given)


def test_checkpointing_recomputes_the_same() -> None:
    """Under activation checkpointing the gradients are the same bits."""
    tensors = _tensors()
    expected = torch.autograd.grad(gated_mlp(*tensors, activation="silu").sum(), tensors)
    y = checkpoint(lambda *t: gated_mlp(*t, activation="silu"), *tensors, use_reentrant=False)
    assert isinstance(y, Tensor)
    found = torch.autograd.grad(y.sum(), tensors)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_autocast_casts_as_linear_does() -> None:
    """fp32 parameters under bf16 autocast: a bf16 result, fp32 gradients."""
    layer, x = SwiGLUMLP(8, 12), torch.randn(3, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == torch.bfloat16
    assert x.grad is not None
    assert x.grad.dtype == torch.float32
    assert layer.up_proj.weight.grad is not None
    assert layer.up_proj.weight.grad.dtype == torch.float32


def test_mixed_dtypes_without_autocast_fail_as_linear_fails() -> None:
    """bf16 rows and fp32 weights raise PyTorch's own error; no bytes are reread as another type."""
    x, *weights = _tensors()
    with pytest.raises(RuntimeError, match="same dtype"):
        gated_mlp(x.bfloat16(), *weights, activation="silu")


def test_compiles_into_one_graph() -> None:
    """``fullgraph=True`` traces training without a break, and a new number of rows does not retrace."""
    layer = GeGLUMLP(10, 14)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(layer, fullgraph=True, backend=counter, dynamic=True)
    for rows in (6, 9, 17):
        x = torch.randn(rows, 10, requires_grad=True)
        expected = torch.autograd.grad(layer(x).sum(), x)[0]
        assert torch.equal(torch.autograd.grad(compiled(x).sum(), x)[0], expected)
    assert counter.frame_count == 1


@pytest.mark.parametrize("bias", [False, True])
def test_operators_pass_opcheck(bias: bool) -> None:  # noqa: FBT001 - a parameter
    """Schema, fake tensors, autograd registration and compilation of every operator, by PyTorch's own checks."""
    tensors = _tensors(bias=bias)
    biases = tensors[4:] or [None] * 3
    torch.library.opcheck(ops.mlp_forward, (*tensors[:4], *biases, "silu", True))
    x, gate, up, down = (t.detach() for t in tensors[:4])
    saved = (torch.randn(6, 10), x, torch.randn(6, 28))
    for needs in ([True] * 7, [True] + [False] * 6, [False] * 3 + [True] + [False] * 3):
        torch.library.opcheck(ops.mlp_backward, (*saved, gate, up, down, "silu", needs))
    torch.library.opcheck(ops.glu_forward, (tensors[1], tensors[2], "gelu"))
    torch.library.opcheck(ops.glu_backward, (x, x, x, "gelu"))


def test_fake_tensors_get_shapes() -> None:
    """Under a fake mode a CUDA call gives a fake output of the right shape and launches nothing."""
    with torch._subclasses.FakeTensorMode():
        shapes = ((5, 7, 64), (128, 64), (128, 64), (64, 128))
        y = gated_mlp(*(torch.empty(s, device="cuda", dtype=torch.bfloat16) for s in shapes), activation="silu")
    assert (y.shape, y.dtype, y.device.type) == ((5, 7, 64), torch.bfloat16, "cuda")


class Stock(nn.Module):
    """A gated MLP as models write it."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(8, 12, bias=bias)
        self.up_proj = nn.Linear(8, 12, bias=bias)
        self.down_proj = nn.Linear(12, 8, bias=bias)


@pytest.mark.parametrize("bias", [False, True])
def test_state_dict_goes_both_ways(bias: bool) -> None:  # noqa: FBT001 - a parameter
    """Keys and shapes are the stock module's, biases kept, loading strict in both directions."""
    layer, stock = GatedMLP(8, 12, activation="silu", bias=bias), Stock(bias=bias)
    layer.load_state_dict(stock.state_dict(), strict=True)
    stock.load_state_dict(layer.state_dict(), strict=True)
    names = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}
    assert set(layer.state_dict()) == names | ({n.replace("weight", "bias") for n in names} if bias else set())


def test_activation_of_the_layers() -> None:
    """GeGLU is exact unless asked otherwise, SwiGLU is SiLU, and the printed layer says so."""
    assert GeGLUMLP(4, 8).activation == "gelu"
    assert GeGLUMLP(4, 8, approximate="tanh").activation == "gelu_tanh"
    assert SwiGLUMLP(4, 8).activation == "silu"
    assert "activation='relu'" in repr(GatedMLP(4, 8, activation="relu"))
