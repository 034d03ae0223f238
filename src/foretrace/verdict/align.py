"""Which guess speaks of which kernel: the two sequences laid side by side, order kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from foretrace.ops import launches_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foretrace.verdict.observed import Seen
    from foretrace.verdict.records import GuessedKernel

Pair = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Match:
    """Positions of a guess and of the kernel that it speaks of; ``None`` where one side has nothing.

    ``moved`` says that the two agree in everything but their place in the order.
    """

    guess: int | None
    seen: int | None
    moved: bool = False


_ONLY_CLASS, _CLASS, _OP, _SHAPES, _MODULE = 1, 4, 3, 3, 2
_SPELLINGS: tuple[set[str], ...] = ({"relu", "clamp_min"},)
"""An op and the one that it dispatches to in some versions of PyTorch (2.11 runs ``relu`` as ``clamp_min``)."""
_PARTS = {
    "_fused_rms_norm": frozenset({"_to_copy", "add", "mean", "mul", "pow", "rsqrt"}),
    "prepare_softmax_online": frozenset({"amax", "exp", "sub", "sum"}),
}
"""What Inductor of one version lists whole (2.11) and of another in its parts (2.13)."""
_TEMPLATES = frozenset({"gemm", "conv", "attention"})
_MOST_CELLS = 4_000_000
"""Above this many comparisons (2,000 × 2,000 kernels, a few seconds) kernels are paired in the order of their class."""


def align(guessed: Sequence[GuessedKernel], seen: Sequence[Seen]) -> list[Match]:
    """Matches in the order of both sides; the classes of a match agree.

    The alignment with the most agreement in class, op, shapes and module, as Needleman and Wunsch (1970) find it. What
    it leaves over on both sides is matched out of order where op and shapes agree: two kernels that do not need each
    other may run either way.
    """
    low, high = _ends(guessed, seen)
    left, right = guessed[low : len(guessed) - high], seen[low : len(seen) - high]
    middle = _best(left, right) if len(left) * len(right) <= _MOST_CELLS else _in_turn(left, right)
    pairs: list[Pair] = [(i, i) for i in range(low)]
    pairs += [(None if i is None else i + low, None if j is None else j + low) for i, j in middle]
    pairs += [(len(guessed) - i, len(seen) - i) for i in range(high, 0, -1)]
    return _with_moved(pairs, guessed, seen)


def _with_moved(pairs: Sequence[Pair], guessed: Sequence[GuessedKernel], seen: Sequence[Seen]) -> list[Match]:
    left_over = [j for i, j in pairs if i is None and j is not None]
    moved: dict[int, int] = {}
    for i in (i for i, j in pairs if j is None and i is not None):
        other = next((j for j in left_over if _certain(guessed[i], seen[j])), None)
        if other is not None:
            moved[i] = other
            left_over.remove(other)
    taken = set(moved.values())
    return [
        Match(i, moved[i], moved=True) if i in moved and j is None else Match(i, j)
        for i, j in pairs
        if i is not None or j not in taken
    ]


def classes_agree(guess: GuessedKernel, seen: Seen) -> bool:
    """Whether a kernel is of the class guessed; a name's class and its op's may differ, so the same op agrees too."""
    if guess.op_class == seen.op_class:
        return True
    if "gemm-helper" in {guess.op_class, seen.op_class} or seen.kind == "set":
        return False
    return guess.op is not None and seen.op is not None and base(guess.op) == base(seen.op)


def ops_agree(guess: GuessedKernel, seen: Seen) -> bool | None:
    """Whether both name one op, or one set of fused ops; ``None`` when one of them does not say."""
    if guess.fused_ops and seen.identity.fused_ops:
        return _same_work(_working(guess.fused_ops), _working(seen.identity.fused_ops))
    if guess.op is None or seen.op is None or guess.fused_ops:
        return None
    if seen.identity.fused_ops:  # a template lists the GEMM that it stands for
        return guess.op_class in _TEMPLATES and base(guess.op) in map(base, seen.identity.fused_ops)
    if "::" not in seen.op:
        return None
    return base(guess.op) == base(seen.op) or {base(guess.op), base(seen.op)} in _SPELLINGS


def shapes_agree(guess: GuessedKernel, seen: Seen) -> bool | None:
    """Whether the guessed sizes are those of the op's first tensors; an ``out=`` may follow. ``None`` when unsaid."""
    if not guess.shapes or seen.shapes is None or not guess.op or not seen.op or base(guess.op) != base(seen.op):
        return None
    return [_rows(shape) for shape in seen.shapes[: len(guess.shapes)]] == [_rows(shape) for shape in guess.shapes]


def _rows(shape: Any) -> Any:  # noqa: ANN401 - sizes, or sizes of a list's tensors
    """Sizes with the leading ones made one: a batch of sequences and its rows laid out in one are the same work."""
    if len(shape) > 2 and all(isinstance(size, int) for size in shape):  # noqa: PLR2004 - rows and columns
        return [math.prod(shape[:-1]), shape[-1]]
    return list(shape)


def modules_agree(guess: GuessedKernel, seen: Seen) -> bool:
    """Whether the trace names the same module, by its path or the end of it."""
    if not guess.source or not seen.module:
        return False
    return guess.source == seen.module or seen.module.endswith(f".{guess.source}")


def base(op: str) -> str:
    """An op's name without namespace, overload and the underscore of its in-place form."""
    return op.rpartition("::")[2].partition(".")[0].removesuffix("_")


def _working(ops: Sequence[str]) -> frozenset[str]:
    """Ops of a fused kernel that compute: versions of PyTorch differ in which views they list."""
    return frozenset(base(op) for op in ops if not launches_nothing(f"aten::{op}"))


def _same_work(guessed: frozenset[str], ran: frozenset[str]) -> bool:
    """Whether two sets of fused ops are one, spelled by two versions of PyTorch."""
    for whole, parts in _PARTS.items():
        if (whole in guessed) != (whole in ran):
            guessed, ran = guessed - parts - {whole}, ran - parts - {whole}
    return guessed == ran


def _score(guess: GuessedKernel, seen: Seen) -> int:
    if not classes_agree(guess, seen):
        return 0
    if ops_agree(guess, seen) is False:
        return _ONLY_CLASS  # better than nothing, and less than any agreement elsewhere
    score = _CLASS + _MODULE * modules_agree(guess, seen)
    return score + _OP * bool(ops_agree(guess, seen)) + _SHAPES * bool(shapes_agree(guess, seen))


def _ends(guessed: Sequence[GuessedKernel], seen: Sequence[Seen]) -> tuple[int, int]:
    """How many pairs agree in everything at the start and at the end: no need to search there."""
    most = min(len(guessed), len(seen))
    low = next((i for i in range(most) if not _certain(guessed[i], seen[i])), most)
    high = next((i for i in range(most - low) if not _certain(guessed[-1 - i], seen[-1 - i])), most - low)
    return low, high


def _certain(guess: GuessedKernel, seen: Seen) -> bool:
    agree = classes_agree(guess, seen) and bool(ops_agree(guess, seen)) and shapes_agree(guess, seen) is not False
    return agree and (not seen.module or modules_agree(guess, seen))


def _best(guessed: Sequence[GuessedKernel], seen: Sequence[Seen]) -> list[Pair]:
    rows, columns = len(guessed), len(seen)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        below, here = best[i + 1], best[i]
        for j in range(columns - 1, -1, -1):
            score = _score(guessed[i], seen[j])
            paired = score + below[j + 1] if score else 0
            here[j] = max(paired, below[j], here[j + 1])
    return _path(best, guessed, seen)


def _path(best: list[list[int]], guessed: Sequence[GuessedKernel], seen: Sequence[Seen]) -> list[Pair]:
    pairs: list[Pair] = []
    i = j = 0
    while i < len(guessed) and j < len(seen):
        score = _score(guessed[i], seen[j])
        if score and best[i][j] == score + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return pairs + [(k, None) for k in range(i, len(guessed))] + [(None, k) for k in range(j, len(seen))]


def _in_turn(guessed: Sequence[GuessedKernel], seen: Sequence[Seen]) -> list[Pair]:
    """Each guess with the next kernel of its class; the rest of the kernels at the end."""
    waiting: dict[str, list[int]] = {}
    for j, one in enumerate(seen):
        waiting.setdefault(one.op_class, []).append(j)
    queues: dict[str, Callable[[], int | None]] = {
        name: partial(next, iter(positions), None) for name, positions in waiting.items()
    }
    pairs: list[Pair] = [(i, queues.get(guess.op_class, lambda: None)()) for i, guess in enumerate(guessed)]
    taken = {j for _, j in pairs}
    return pairs + [(None, j) for j in range(len(seen)) if j not in taken]
