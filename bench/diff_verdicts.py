"""How often `foretrace.diff` is wrong: recordings of one module against each other, and against a planted slowdown.

python bench/diff_verdicts.py --out bench/results/diff_verdicts_h200.json --traces /tmp/recordings
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import foretrace
from foretrace.capture import Schedule, Script, Target, capture_target, parse_target

if TYPE_CHECKING:
    from foretrace.run import Run

HERE = Path(__file__).parent


def main() -> None:
    """Record, compare all pairs, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--recordings", type=int, default=10)
    parser.add_argument("--active", type=int, default=10)
    arguments = parser.parse_args()
    folder, count, active = arguments.traces, arguments.recordings, arguments.active
    fast_target, slow_target = (parse_target(f"{HERE / 'mlp_variants.py'}:{name}") for name in ("geglu", "slower"))
    plain, slow = [], []
    for number in range(count):  # in turn, so that both kinds see the same drift of clocks and neighbours
        plain.append(record(fast_target, folder, f"plain{number}", active))
        slow.append(record(slow_target, folder, f"slower{number}", active))
    verdicts = [foretrace.diff(a, b).steps.verdict for a, b in itertools.combinations(plain, 2)]
    found = [foretrace.diff(a, b).steps.verdict for a, b in zip(plain, slow, strict=True)]
    times = [[busy_ns(run) for run in runs] for runs in (plain, slow)]
    result = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "device": torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "recordings": count,
        "active_steps": active,
        "how": "one process, a fresh module for each recording, plain and slower in turn",
        "pairs": len(verdicts),
        "pairs_verdicts": dict(Counter(verdicts)),
        "planted_ratio": statistics.median(times[1]) / statistics.median(times[0]),
        "planted_verdicts": dict(Counter(found)),
        "busy_ns_a_step": {"plain": times[0], "slower": times[1]},
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("pairs_verdicts", "planted_ratio", "planted_verdicts")}))


def record(target: Target | Script, folder: Path, name: str, active: int) -> Run:
    """One recording, read back."""
    assert isinstance(target, Target), "a factory was named"
    (captured,) = capture_target(
        target, out=folder, name=name, region="mlp", schedule=Schedule(1, 1, active), unprofiled=False, force=True
    )
    if captured.error is not None:
        raise captured.error
    return foretrace.read(captured.files.trace)


def busy_ns(run: Run) -> float:
    """Median GPU busy time of a step."""
    return statistics.median(run.busy_ns(step.activities) for step in run.steps)


if __name__ == "__main__":
    main()
