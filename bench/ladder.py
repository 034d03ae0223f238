"""Walk the road live several times and store what each rung took: ``bench/results/ladder_<device>.json``.

python bench/ladder.py --out bench/results/ladder_h200.json --traces /tmp/road --walks 3
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

KEPT = ("name", "title", "skipped", "guesses", "surprises", "kernels", "on_gpu", "on_cpu")
FIGURES = ("kernels_per_step", "gpu_ns", "cpu_ns", "first_call_ns")


def main() -> None:
    """Walk, collect, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--walks", type=int, default=3)
    arguments = parser.parse_args()
    roads = [walk(arguments.traces / f"walk{number}") for number in range(arguments.walks)]
    record = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "versions": {name: version(name) for name in ("torch", "triton", "liger-kernel", "numpy")},
        "device": roads[0]["device"],
        "walks": arguments.walks,
        "sentence": roads[0]["sentence"],
        "rungs": [rung(position, roads) for position in range(len(roads[0]["rungs"]))],
    }
    arguments.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{arguments.out}: {record['sentence']}")


def walk(folder: Path) -> dict[str, Any]:
    """One walk in a fresh process; its JSON."""
    command = [sys.executable, "-m", "foretrace", "ladder", "--out", str(folder), "--format", "json", "--force"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    road: dict[str, Any] = json.loads(done.stdout)
    return road


def rung(position: int, roads: list[dict[str, Any]]) -> dict[str, Any]:
    """One rung over all walks: median, least and most of each figure, and what its guesses came to."""
    first = roads[0]["rungs"][position]
    out = {
        key: first[key] for key in ("name", "title", "skipped", "guesses", "surprises", "kernels", "on_gpu", "on_cpu")
    }
    for figure in FIGURES:
        values = [road["rungs"][position][figure] for road in roads]
        known = [value for value in values if value is not None]
        out[figure] = {"median": statistics.median(known), "min": min(known), "max": max(known)} if known else None
    return out


def version(package: str) -> str | None:
    """Installed version."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
