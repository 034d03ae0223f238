"""``geglu``, ``swiglu`` and their gradients, through the pointwise kernels in Triton's interpreter."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - PyTorch's own convention

from foretrace.fused import ACTIVATIONS, geglu, glu, swiglu
from foretrace.fused.reference import glu as plain_glu

# the interpreter computes in NumPy, which warns where a GPU goes quietly to infinity
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_value_and_gradients_in_fp32(activation: str) -> None:
    """Value and both gradients agree with fp64 to a few fp32 roundings (2^-24 = 6e-8 each, under ten of them)."""
    gate, up = (torch.randn(7, 53, requires_grad=True) for _ in range(2))
    dout = torch.randn(7, 53)
    value = glu(gate, up, activation=activation)
    found = torch.autograd.grad(value, (gate, up), dout)
    gate64, up64 = (t.detach().double().requires_grad_() for t in (gate, up))
    expected = plain_glu(gate64, up64, activation)
    wanted = torch.autograd.grad(expected, (gate64, up64), dout.double())
    assert _error(value, expected) < 6e-7
    assert _error(found[0], wanted[0]) < 6e-7
    assert _error(found[1], wanted[1]) < 6e-7


def test_exact_and_tanh_gelu_differ() -> None:
    """GELU(1) is 0.841345 exactly and 0.841192 by the tanh formula: two functions, chosen by ``approximate``."""
    one = torch.ones(1)
    assert geglu(one, one).item() == pytest.approx(0.8413447, abs=2e-7)
    assert geglu(one, one, approximate="tanh").item() == pytest.approx(0.8411920, abs=2e-7)


def test_unknown_activation_is_refused_in_words() -> None:
    """A name that nobody computes raises and lists those that are."""
    with pytest.raises(ValueError, match="unknown activation 'mish': choose one of gelu, gelu_tanh, silu, relu, none"):
        glu(torch.ones(1), torch.ones(1), activation="mish")
    with pytest.raises(ValueError, match="approximate is 'none' or 'tanh', not 'fast'"):
        geglu(torch.ones(1), torch.ones(1), approximate="fast")


def test_bf16_is_rounded_once() -> None:
    """silu(-0.333984375) * 1.6484375 is -0.22949219 with one rounding; eager's two give -0.23046875, one ulp away."""
    gate = torch.tensor([-0.333984375], dtype=torch.bfloat16)
    up = torch.tensor([1.6484375], dtype=torch.bfloat16)
    assert swiglu(gate, up).item() == -0.2294921875


def test_silu_keeps_its_negative_tail() -> None:
    """silu(-20) is -4.1223e-08 within one bf16 ulp (2^-8), and silu(-200) is zero."""
    gate = torch.tensor([-20.0, -200.0], dtype=torch.bfloat16)
    tail, end = swiglu(gate, torch.ones_like(gate)).tolist()
    assert tail == pytest.approx(-4.1223e-08, rel=2**-8)
    assert end == 0


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu", "relu"])
def test_infinite_gates_follow_eager(activation: str) -> None:
    """+inf passes and -inf gives what PyTorch's own activation gives: NaN for all but ReLU, where it is 0."""
    gate = torch.tensor([math.inf, -math.inf])
    high, low = glu(gate, torch.ones(2), activation=activation).tolist()
    assert high == math.inf
    assert low == 0 if activation == "relu" else math.isnan(low)


@pytest.mark.parametrize("activation", ["relu", "none"])
def test_gradients_at_the_ends_follow_eager(activation: str) -> None:
    """The gate's gradient is up's share of dout or nothing, whatever the gate: also at infinity and where it is NaN."""
    gate = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0], requires_grad=True)
    up = torch.full((6,), 2.0)
    (found,) = torch.autograd.grad(glu(gate, up, activation=activation), gate, torch.ones(6))
    (wanted,) = torch.autograd.grad(plain_glu(gate, up, activation), gate, torch.ones(6))
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("width", [46336, 65537, 102400])
def test_wide_rows(width: int) -> None:
    """Rows wider than a block, a grid axis, or other libraries' limit are one loop of blocks like any other."""
    gate, up = torch.randn(2, width), torch.randn(2, width)
    assert _error(swiglu(gate, up), F.silu(gate.double()) * up.double()) < 6e-7


def test_no_elements() -> None:
    """An empty batch gives an empty result and empty gradients, and launches nothing."""
    gate, up = (torch.randn(0, 16, requires_grad=True) for _ in range(2))
    out = swiglu(gate, up)
    out.sum().backward()
    assert out.shape == (0, 16)
    assert gate.grad is not None
    assert gate.grad.shape == (0, 16)


def _halves_of_a_packed_projection() -> tuple[torch.Tensor, torch.Tensor]:
    gate, up = torch.randn(6, 20).chunk(2, -1)
    return gate, up


def _every_second_column() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 20)[:, ::2], torch.randn(6, 10)


def _one_row_for_all() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(10).expand(6, -1), torch.randn(6, 10)


def _transposed() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(10, 6).t(), torch.randn(3, 6, 10)[1]


@pytest.mark.parametrize("make", [_halves_of_a_packed_projection, _every_second_column, _one_row_for_all, _transposed])
def test_strided_inputs(make: object) -> None:
    """Any strides give eager's result and gradients of the inputs' shapes, and the inputs stay as they were."""
    gate, up = make()  # type: ignore[operator] # one of the functions above
    before = gate.clone(), up.clone()
    gate, up = gate.detach().requires_grad_(), up.detach().requires_grad_()
    out = swiglu(gate, up)
    out.backward(torch.ones(()).expand(out.shape))
    expected = F.silu(before[0].double()) * before[1].double()
    assert _error(out, expected) < 6e-7
    assert torch.equal(gate, before[0])
    assert torch.equal(up, before[1])
    assert gate.grad is not None
    assert gate.grad.shape == gate.shape
    assert up.grad is not None
    assert _error(up.grad, F.silu(before[0].double())) < 6e-7


def test_mixed_dtypes_promote() -> None:
    """bf16 times fp32 is fp32, as in eager; no bytes are reread as another type."""
    gate, up = torch.randn(4, 8, dtype=torch.bfloat16), torch.randn(4, 8)
    out = swiglu(gate, up)
    assert out.dtype == torch.float32
    assert _error(out, F.silu(gate.double()) * up.double()) < 6e-7
    compiled = torch.compile(swiglu, backend="eager", fullgraph=True)
    assert torch.equal(compiled(gate, up), out)
    assert swiglu(gate, torch.tensor(2.0)).dtype == torch.bfloat16  # of no dimensions, as eager promotes


def test_broadcasting() -> None:
    """A scalar up and a row of gates meet as eager's product would let them, gradients summed back."""
    gate, up = torch.randn(3, 5, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    swiglu(gate, up).sum().backward()
    assert up.grad is not None
    assert up.grad.item() == pytest.approx(F.silu(gate.detach().double()).sum().item(), rel=1e-6)


def test_fp64_stays_fp64() -> None:
    """Double precision takes the plain path: a kernel that computes in fp32 would lose half of it."""
    gate = torch.randn(5, dtype=torch.float64)
    assert torch.equal(swiglu(gate, gate), F.silu(gate) * gate)


@pytest.mark.parametrize("saved", [False, True])
def test_a_second_backward_says_that_there_is_none(saved: bool) -> None:  # noqa: FBT001 - a parameter
    """``create_graph`` works, and differentiating its result raises, also where dout itself needs no gradient."""
    gate, up = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    (dgate,) = torch.autograd.grad(swiglu(gate, up).sum(), gate, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        (dgate.sum() if saved else (dgate * gate).sum()).backward()
