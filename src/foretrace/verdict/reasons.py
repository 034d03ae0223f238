"""Why a guess held or broke, and why something ran that nobody guessed: in words, with the numbers that decide it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from foretrace.units import duration, plural, significant
from foretrace.verdict.align import base, ops_agree, shapes_agree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretrace.devices import Device
    from foretrace.verdict.observed import Seen
    from foretrace.verdict.records import GuessedKernel

SLOW = 3
"""A kernel that takes more than this many times its floor is worth a word."""

_MATRIX = 2
_BY_OP = frozenset({"gemm", "pointwise", "reduction"})
"""Classes in which another op is other work. In the rest backends choose the op: cuDNN or flash attention,
``index_select`` or ``gather`` for an embedding."""
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def contradiction(guess: GuessedKernel, seen: Seen) -> str | None:
    """What the kernel says against the guess it is aligned with; ``None`` for nothing."""
    if guess.epilogue and "bias" in guess.epilogue and seen.bias is False:
        return f"you guessed a bias in the epilogue; the kernel adds none ({_op_words(seen)})"
    if seen.bias and guess.op_class == "gemm" and guess.op and not guess.epilogue and ops_agree(guess, seen) is False:
        return f"a bias is added in the epilogue that you did not guess ({_op_words(seen)})"
    if ops_agree(guess, seen) is False and (guess.fused_ops or seen.identity.fused_ops or guess.op_class in _BY_OP):
        return f"you guessed {_guessed_op(guess)}, {_ran_op(seen)} ran"
    if shapes_agree(guess, seen) is False:
        return f"you guessed {sizes(guess.shapes)}, it ran on {sizes(seen.shapes)}"
    ran = seen.identity.in_dtype
    if guess.op_class in {"gemm", "conv", "attention"} and {guess.dtype, ran} <= _FLOATS and guess.dtype != ran:
        return f"you guessed {guess.dtype}, it ran in {ran}"
    return None


def confirmation(guess: GuessedKernel, seen: Seen, *, moved: bool) -> str:
    """What is worth saying about a guess that held; ``moved`` when it ran at another place of the order."""
    parts = ["ran in another order"] if moved else []
    if seen.identity.split_k and seen.op_class == "gemm":
        parts.append("split-K")
    if seen.identity.epilogue:
        parts.append(f"{seen.identity.epilogue} in the epilogue")
    elif guess.epilogue and seen.bias:
        parts.append(f"{guess.epilogue} added by {seen.op}; the kernel's name does not say how")
    if guess.op and seen.op and "::" in seen.op and ops_agree(guess, seen) is False:
        parts.append(f"ran as {seen.op}")
    return ", ".join(parts)


def missing(guess: GuessedKernel, seen: Sequence[Seen]) -> str:
    """Why a guessed kernel did not run."""
    name = base(guess.op) if guess.op else None
    inside = next((s for s in seen if name and name in map(base, s.identity.fused_ops or ())), None)
    if inside is not None:
        return f"no kernel of its own: fused into {inside.identity.short}"
    return f"no such kernel ran{f' on {sizes(guess.shapes)}' if guess.shapes else ''}"


def no_split(guess: GuessedKernel) -> str:
    """Why a guessed split-K helper may be missing."""
    return f"cuBLAS did not split K here; the rule said it would ({guess.why})" if guess.why else "K was not split"


def split(seen: Seen, device: Device | None) -> str:
    """Why a GEMM's helper ran."""
    found = matrix_sizes(seen.shapes)
    if found is None:
        return "split-K: cuBLAS cuts K into parts that run side by side, and this kernel adds them up"
    rows, columns, depth = found
    few = f"{plural(rows, 'row')} and {plural(columns, 'column')} give too few tiles"
    many = f" for {device.sms} SMs" if device is not None and device.sms else ""
    return f"split-K: {few}{many} while K = {depth} is long, so cuBLAS splits K and adds the parts up"


def sets(some: Sequence[Seen]) -> str:
    """Why memory sets ran beside kernels."""
    classes = {one.op or "" for one in some}
    gemms = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
    if classes <= gemms:
        return "cuBLAS clears a few bytes before some of its GEMM kernels; no work of yours"
    return f"{', '.join(sorted(classes))} clears a few bytes that its kernel counts in; no work of yours"


def unexpected(seen: Seen) -> str:
    """What an unguessed kernel is."""
    where = f" in {seen.module}" if seen.module else ""
    return f"not guessed: {seen.op or seen.identity.short}{where}{_on(seen)}"


def slow(dur_ns: float, floor_ns: float) -> str:
    """How far a kernel is above its floor."""
    return f"takes {duration(dur_ns)}, {significant(dur_ns / floor_ns, 2)}× its floor of {duration(floor_ns)}"


def matrix_sizes(shapes: tuple[Any, ...] | None) -> tuple[int, int, int] | None:
    """(M, N, K) of the first two matrices of an op, batches left out; ``None`` where there are none."""
    some = [s for s in shapes or () if isinstance(s, tuple) and len(s) >= _MATRIX and isinstance(s[-1], int)]
    for left, right in pairwise(some):
        if left[-1] == right[-2]:
            return left[-2], right[-1], left[-1]
    return None


def sizes(shapes: tuple[Any, ...] | None) -> str:
    """``[8192, 768] × [768, 3072]``."""
    return " × ".join(str(list(s)) if isinstance(s, tuple) else str(s) for s in shapes or ()) or "unknown sizes"


def _on(seen: Seen) -> str:
    return f" on {sizes(seen.shapes)}" if seen.shapes and seen.op and seen.op.startswith("aten::") else ""


def _op_words(seen: Seen) -> str:
    return f"{seen.op}: {seen.identity.short}" if seen.op else seen.identity.short


def _guessed_op(guess: GuessedKernel) -> str:
    return f"{{{', '.join(guess.fused_ops)}}} fused" if guess.fused_ops else guess.op or guess.op_class


def _ran_op(seen: Seen) -> str:
    if seen.identity.fused_ops:
        return f"{{{', '.join(seen.identity.fused_ops)}}} fused"
    return seen.op or seen.identity.short
