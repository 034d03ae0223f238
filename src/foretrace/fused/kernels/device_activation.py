"""The activations and their derivatives as device functions, in fp32, shared by Triton and Gluon kernels.

Every form keeps its relative precision in the negative tail: all are ``x / (1 + exp(-z))`` and never ``1 - ...`` or
``0.5 + 0.5 tanh``, which cancel. All constants are ``constexpr``: a Python float that reaches a kernel as an argument
can turn its arithmetic into fp64.

``FAST`` is for GEMM epilogues with 16-bit results on NVIDIA devices: the hardware's exp2 and reciprocal without the
steps around denormals (results below 1e-36 become zero), and a shorter fit of the normal distribution.
"""

# ruff: noqa: ANN001, ANN201, ANN202, FBT003 - Triton gives arguments their types, and constants go by place
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"
from __future__ import annotations

import triton
import triton.language as tl

_LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
_RSQRT_2: tl.constexpr = tl.constexpr(0.7071067811865476)
_RSQRT_2PI: tl.constexpr = tl.constexpr(0.3989422804014327)
# tanh GELU is x sigmoid(z), z = 2 sqrt(2/pi) (x + 0.044715 x^3): the coefficients of -z log2(e), and of z's slope
_TANH_LINEAR_LOG2: tl.constexpr = tl.constexpr(-2.302208198144325)
_TANH_CUBIC_LOG2: tl.constexpr = tl.constexpr(-0.10294323460695949)
_TANH_SLOPE: tl.constexpr = tl.constexpr(1.5957691216057308)
_TANH_SLOPE_SQUARED: tl.constexpr = tl.constexpr(0.21406443847660488)
# |x| where the fit below ends: exact GELU is -1.04e-7 at -5.5
_FIT_END_SQUARED: tl.constexpr = tl.constexpr(30.25)


@triton.jit
def _exp2(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:  # noqa: RET505 - Triton takes one return a constexpr branch
        return tl.exp2(x)


@triton.jit
def _reciprocal(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:  # noqa: RET505 - as above
        return 1.0 / x


@triton.jit
def _sigmoid(minus_z_log2e, FAST: tl.constexpr):
    return _reciprocal(1.0 + _exp2(minus_z_log2e, FAST), FAST)


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
def _normal_cdf_fast(x):
    """Phi(x) as sigmoid(-x q(x^2) / log2(e)), q a minimax fit of degree 6 to the logit of Phi, |x| up to 5.5.

    Its relative error there is below 2.5e-4, an eighth of bf16's rounding and half of fp16's. Further out q stays
    constant: Phi(-5.5) is 1.9e-8, and GELU's products below 1.1e-7 come out up to a few times too large, where eager's
    ``1 + erf`` has rounded them to 0 or to multiples of 6e-8 x.
    """
    s = tl.minimum(x * x, _FIT_END_SQUARED)
    q = 1.0314505465942633e-07 + s * -9.418251558894808e-10
    q = -4.293850311763833e-06 + s * q
    q = 7.177863376404212e-05 + s * q
    q = 0.0006199396247988805 + s * q
    q = -0.10619017682151966 + s * q
    q = -2.301209875900362 + s * q
    return _sigmoid(x * q, True)


@triton.jit
def _gate(x, ACTIVATION: tl.constexpr, FAST: tl.constexpr):
    """What ``act(x) = x * gate(x)`` multiplies by: GELU's and SiLU's share of x."""
    if ACTIVATION == "gelu":
        if FAST:
            return _normal_cdf_fast(x)
        else:  # noqa: RET505 - as above
            return _normal_cdf(x)
    elif ACTIVATION == "gelu_tanh":
        return _sigmoid(x * (_TANH_LINEAR_LOG2 + _TANH_CUBIC_LOG2 * (x * x)), FAST)
    else:
        return _sigmoid(-_LOG2E * x, FAST)


@triton.jit
def act(x, ACTIVATION: tl.constexpr, FAST: tl.constexpr):
    """``act(x)`` for fp32 ``x``."""
    if ACTIVATION == "none":
        return x
    elif ACTIVATION == "relu":  # noqa: RET505 - as above
        return tl.where(x < 0, 0.0, x)
    else:
        return x * _gate(x, ACTIVATION, FAST)


@triton.jit
def act_and_slope(x, ACTIVATION: tl.constexpr, FAST: tl.constexpr):
    """``act(x)`` and ``act'(x)`` for fp32 ``x``."""
    if ACTIVATION == "none":
        return x, tl.where(x < 0, 1.0, 1.0)
    elif ACTIVATION == "relu":  # noqa: RET505 - as above
        return tl.where(x < 0, 0.0, x), tl.where(x <= 0, 0.0, 1.0)
    else:
        s = _gate(x, ACTIVATION, FAST)
        value = x * s
        if ACTIVATION == "gelu":
            slope = s + x * (_RSQRT_2PI * _exp2((-0.5 * _LOG2E) * (x * x), FAST))
        elif ACTIVATION == "gelu_tanh":
            slope = s + value * (1.0 - s) * (_TANH_SLOPE + _TANH_SLOPE_SQUARED * (x * x))
        else:
            slope = s + value * (1.0 - s)
        return value, slope
