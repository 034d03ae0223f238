"""Replicate a trace until it has a wanted size: times move on, ids and step numbers stay unique.

python bench/make_large_trace.py tests/data/h200/llama4_prefill.json.gz /tmp/large.json --megabytes 200
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

_STEP = re.compile(r"ProfilerStep#(\d+)")
_IDS = ("correlation", "External id", "Ev Idx", "Record function id", "Python id", "Python parent id")
_encode = msgspec.json.Encoder(decimal_format="number").encode  # digit by digit, as Kineto writes them


def main() -> None:
    """Write the replicated trace and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=float, default=200)
    arguments = parser.parse_args()
    document = json.loads(gzip.decompress(arguments.source.read_bytes()), parse_float=Decimal)
    events = document.pop("traceEvents")
    slices = [e for e in events if e["ph"] == "X" and e.get("cat") != "Trace"]
    begin = min(e["ts"] for e in slices)
    span = max(e["ts"] + e["dur"] for e in slices) - begin + 1000
    largest = max(e.get("args", {}).get(key) or 0 for e in slices for key in _IDS) + 1
    steps = len({e["name"] for e in slices if _STEP.fullmatch(e["name"])})
    copies = written = 0
    with arguments.target.open("w") as out:
        head = _encode(document).decode()
        written += out.write(head.removesuffix("}") + ', "traceEvents": [\n')
        while written < arguments.megabytes * 1e6:
            for event in events:
                if copies and event["ph"] == "M":
                    continue
                moved = _moved(event, span * copies, largest * copies, steps * copies)
                separator = ",\n" if copies or event is not events[0] else ""
                written += out.write(separator + _encode(moved).decode())
            copies += 1
        out.write("\n]}\n")
    print(f"{arguments.target}: {written / 1e6:.1f} MB, {copies} copies of {len(events)} events")


def _moved(event: dict[str, Any], by_us: Decimal, by_id: int, by_step: int) -> dict[str, Any]:
    moved = dict(event)
    if event["ph"] != "M":
        moved["ts"] = event["ts"] + by_us
    if isinstance(event.get("id"), int):
        moved["id"] = event["id"] + by_id
    if "args" in event:
        moved["args"] = {k: v + by_id if k in _IDS and v else v for k, v in event["args"].items()}
    step = _STEP.fullmatch(event["name"])
    if step:
        moved["name"] = f"ProfilerStep#{int(step[1]) + by_step}"
    return moved


if __name__ == "__main__":
    main()
