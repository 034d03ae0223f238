"""How good the guesses are: every recorded trace whose module can be written down, guessed at and held against it.

    python bench/guess_accuracy.py

Prints precision and recall by class and writes ``bench/results/guess_accuracy.json``. A guess counts when a kernel of
its class ran at its place and nothing contradicts it (op, shapes, bias, type). The Liger traces run a Triton kernel of
another package, and those of two ranks need a process group: neither can run on fake tensors.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import guess_targets as t
import torch

import foretrace
from foretrace.guess import guess_built
from foretrace.verdict.align import align
from foretrace.verdict.observed import observe
from foretrace.verdict.reasons import contradiction

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.run import Run
    from foretrace.verdict import Guess

HERE = Path(__file__).parent
TRACES = HERE.parent / "tests" / "data" / "h200"
NEEDED = {"eager": 0.95, "compiled": 0.90}

SMALL = {"batch": 1, "seq": 1, "dim": 768, "hidden": 3072}
ARTICLE = {"batch": 64, "seq": 128, "dim": 768, "hidden": 3072}
LARGE = {"batch": 4, "seq": 2048, "dim": 2048, "hidden": 16384}

TARGETS: dict[str, tuple[str, Callable[[], t.Built]]] = {
    "linear_1024x32x64_eager": ("eager", partial(t.linear, rows=1024, dim=32, out=64)),
    "linear_8192x4096x4096_eager": ("eager", partial(t.linear, rows=8192, dim=4096, out=4096)),
    "mlp_1x1x768x3072_eager": ("eager", partial(t.geglu, **SMALL)),
    "mlp_64x128x768x3072_eager": ("eager", partial(t.geglu, **ARTICLE)),
    "mlp_4x2048x2048x16384_eager": ("eager", partial(t.geglu, **LARGE)),
    "mlp_float16": ("eager", partial(t.geglu, **ARTICLE, dtype="float16")),
    "attention_naive": ("eager", partial(t.attention, fused=False)),
    "sdpa": ("eager", partial(t.attention, fused=True)),
    "llama4_prefill": ("eager", partial(t.llama, seq=512)),
    "llama4_decode1": ("eager", partial(t.llama, seq=1)),
    "mlp_two_streams": ("eager", t.two_streams),
    "mlp_sync_and_pageable_copy": ("eager", t.read_back),
    "train_mlp_eager": ("eager", t.train),
    "linear_1024x32x64_compiled": ("compile", partial(t.linear, rows=1024, dim=32, out=64)),
    "linear_8192x4096x4096_compiled": ("compile", partial(t.linear, rows=8192, dim=4096, out=4096)),
    "mlp_1x1x768x3072_compiled": ("compile", partial(t.geglu, **SMALL)),
    "mlp_64x128x768x3072_compiled": ("compile", partial(t.geglu, **ARTICLE)),
    "mlp_4x2048x2048x16384_compiled": ("compile", partial(t.geglu, **LARGE)),
    "mlp_1x1x768x3072_cudagraph": ("within", partial(t.geglu, **SMALL, mode="reduce-overhead")),
    "mlp_64x128x768x3072_cudagraph": ("within", partial(t.geglu, **ARTICLE, mode="reduce-overhead")),
    "mlp_4x2048x2048x16384_cudagraph": ("within", partial(t.geglu, **LARGE, mode="reduce-overhead")),
    "mlp_64x128x768x3072_maxautotune": ("compile", partial(t.geglu, **ARTICLE)),
    "mlp_4x2048x2048x16384_maxautotune": ("compile", partial(t.geglu, **LARGE)),
    "mlp_recompiles": ("within", partial(t.new_shape, seq=112)),
    "train_mlp_compiled": ("within", partial(t.train, compiled=True)),
}
"""Trace → variant (``within``: the target compiles a part of itself) and target."""


def score(guess: Guess, run: Run) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Kernels by class: guessed and there, guessed and not there, there and not guessed."""
    seen = observe(run).work
    right: Counter[str] = Counter()
    for match in align(guess.kernels, seen):
        if match.guess is not None and match.seen is not None:
            one = guess.kernels[match.guess]
            right[one.op_class] += contradiction(one, seen[match.seen]) is None
    guessed = Counter(kernel.op_class for kernel in guess.kernels)
    ran = Counter(one.op_class for one in seen)
    # a match may be of two classes, where a name and an op say it differently: it counts under the guess's
    return right, guessed - right, _missed(ran, right, len(seen))


def _missed(ran: Counter[str], right: Counter[str], total: int) -> Counter[str]:
    missed = ran - right
    over = missed.total() - (total - right.total())
    for name in sorted(missed, key=lambda name: -missed[name]):
        cut = min(over, missed[name])
        missed[name] -= cut
        over -= cut
    return +missed


def row(right: int, wrong: int, missed: int) -> dict[str, Any]:
    """Counts with precision and recall."""
    return {
        "right": right,
        "wrong": wrong,
        "missed": missed,
        "precision": round(right / (right + wrong), 4) if right + wrong else None,
        "recall": round(right / (right + missed), 4) if right + missed else None,
    }


def table(counts: tuple[Counter[str], Counter[str], Counter[str]]) -> dict[str, Any]:
    """A row for each class, and one for all."""
    right, wrong, missed = counts
    names = sorted({*right, *wrong, *missed})
    rows = {name: row(right[name], wrong[name], missed[name]) for name in names}
    return {**rows, "all": row(right.total(), wrong.total(), missed.total())}


def main() -> int:
    """Guess, hold, print, write; 1 when a promise is not kept."""
    totals = {kind: (Counter[str](), Counter[str](), Counter[str]()) for kind in NEEDED}
    by_trace = {}
    for name, (variant, build) in TARGETS.items():
        began = time.perf_counter()
        guess = guess_built(
            lambda build=build: (*build(), {}), on="h200", variant="compile" if variant == "compile" else "eager"
        )
        counts = score(guess, foretrace.read(TRACES / f"{name}.json.gz"))
        kind = "eager" if variant == "eager" else "compiled"
        for total, count in zip(totals[kind], counts, strict=True):
            total.update(count)
        by_trace[name] = row(*(count.total() for count in counts))
        wrong = ", ".join(f"{n} {c}" for c, n in counts[1].items() if n)
        missed = ", ".join(f"{n} {c}" for c, n in counts[2].items() if n)
        right, seconds = by_trace[name]["right"], time.perf_counter() - began
        print(f"{name:38}{right:>4} right  {wrong or '–'} wrong  {missed or '–'} missed  {seconds:.1f} s")
    tables = {kind: table(counts) for kind, counts in totals.items()}
    print()
    for kind, rows in tables.items():
        for name, one in rows.items():
            ran = one["right"] + one["missed"]
            print(f"{kind:10}{name:16}precision {one['precision']}  recall {one['recall']}  of {ran}")
    result = {"torch": torch.__version__, "device": "NVIDIA H200", **tables, "traces": by_trace}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "guess_accuracy.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    kept = [min(tables[k]["all"]["precision"], tables[k]["all"]["recall"]) >= least for k, least in NEEDED.items()]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
