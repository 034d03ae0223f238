"""The activations and their derivatives as device functions, in fp32, shared by Triton and Gluon kernels.

Every form keeps its relative precision in the negative tail: ``sigmoid`` is ``1 / (1 + exp(-x))`` and never
``1 - ...`` or ``0.5 + 0.5 tanh``, and the normal distribution comes from ``erfc``, which eager's ``1 + erf`` cancels.
All constants are ``constexpr``: a Python float that reaches a kernel as an argument can turn its arithmetic into fp64.
"""

# ruff: noqa: ANN001, ANN202 - Triton gives device functions their types
from __future__ import annotations

import triton
import triton.language as tl

_RSQRT_2: tl.constexpr = tl.constexpr(0.7071067811865476)
_RSQRT_2PI: tl.constexpr = tl.constexpr(0.3989422804014327)
# tanh GELU is x sigmoid(2 z) with z = sqrt(2/pi) (x + 0.044715 x^3); here 2 sqrt(2/pi) and its cubic share
_TANH_LINEAR: tl.constexpr = tl.constexpr(1.5957691216057308)
_TANH_CUBIC: tl.constexpr = tl.constexpr(0.07135481282553496)
_TANH_CUBIC_3: tl.constexpr = tl.constexpr(0.21406443847660488)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _normal_cdf(x):
    """Phi(x) = erfc(-x / sqrt 2) / 2, by a Chebyshev fit of erfc with a fractional error below 1.2e-7 everywhere.

    Source of the fit: Press et al., Numerical Recipes, section 6.2 (``erfcc``).
    """
    a = tl.abs(x) * _RSQRT_2
    t = 1.0 / (1.0 + 0.5 * a)
    p = -0.82215223 + t * 0.17087277
    p = 1.48851587 + t * p
    p = -1.13520398 + t * p
    p = 0.27886807 + t * p
    p = -0.18628806 + t * p
    p = 0.09678418 + t * p
    p = 0.37409196 + t * p
    p = 1.00002368 + t * p
    p = -1.26551223 + t * p
    tail = 0.5 * t * tl.exp(p - a * a)
    return tl.where(x < 0, tail, 1.0 - tail)


@triton.jit
def act(x, ACTIVATION: tl.constexpr):
    """``act(x)`` for fp32 ``x``."""
    if ACTIVATION == "gelu":
        return x * _normal_cdf(x)
    elif ACTIVATION == "gelu_tanh":  # noqa: RET505 - Triton takes one return a constexpr branch
        return x / (1.0 + tl.exp(-x * (_TANH_LINEAR + _TANH_CUBIC * x * x)))
    elif ACTIVATION == "silu":
        return x / (1.0 + tl.exp(-x))
    elif ACTIVATION == "relu":
        return tl.where(x < 0, 0.0, x)
    else:
        return x


@triton.jit
def act_and_slope(x, ACTIVATION: tl.constexpr):
    """``act(x)`` and ``act'(x)`` for fp32 ``x``."""
    if ACTIVATION == "gelu":
        cdf = _normal_cdf(x)
        return x * cdf, cdf + x * _RSQRT_2PI * tl.exp(-0.5 * x * x)
    elif ACTIVATION == "gelu_tanh":  # noqa: RET505 - as in act
        s = _sigmoid(x * (_TANH_LINEAR + _TANH_CUBIC * x * x))
        return x * s, s + x * s * (1.0 - s) * (_TANH_LINEAR + _TANH_CUBIC_3 * x * x)
    elif ACTIVATION == "silu":
        s = _sigmoid(x)
        return x * s, s * (1.0 + x * (1.0 - s))
    elif ACTIVATION == "relu":
        return tl.where(x < 0, 0.0, x), tl.where(x > 0, 1.0, 0.0)
    else:
        return x, tl.full(x.shape, 1.0, tl.float32)
