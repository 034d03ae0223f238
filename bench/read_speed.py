"""How fast a large trace is read, against a bare typed decode of the same bytes in the same run.

python bench/read_speed.py --megabytes 200 --rounds 3

The decode makes every event an object and does nothing with it; reading makes columns, links and nests. Both run in
fresh processes, alternately. The ratio of their best times (other work on the machine only adds) and the peak memory
are printed and stored.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests/data/h200/llama4_prefill.json.gz"
RESULT = ROOT / "bench/results/read_speed.json"

_MEASURE = """
import json, resource, sys, time
{imports}
path = sys.argv[1]
resting = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
{body}
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"seconds": seconds, "peak_mb": peak / 1024, "above_resting_mb": (peak - resting) / 1024}}))
"""
PROGRAMS = {
    "decode": _MEASURE.format(
        imports="import gc, msgspec\nfrom pathlib import Path\nfrom foretrace.trace.schema import Event",
        body=(
            "class Trace(msgspec.Struct):\n    traceEvents: list[Event]\n"
            "trace = msgspec.json.decode(Path(path).read_bytes(), type=Trace)"
        ),
    ),
    "read": _MEASURE.format(imports="from foretrace.run import read", body="run = read(path)"),
}


def main() -> None:
    """Build the trace, measure both programs alternately, print and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "large.json"
        make = [sys.executable, ROOT / "bench/make_large_trace.py", SOURCE, trace]
        subprocess.run([*make, "--megabytes", str(arguments.megabytes)], check=True)
        size_mb = trace.stat().st_size / 1e6
        measured: dict[str, list[dict[str, float]]] = {name: [] for name in PROGRAMS}
        for _ in range(arguments.rounds):
            for name, program in PROGRAMS.items():
                out = subprocess.run([sys.executable, "-c", program, trace], check=True, capture_output=True, text=True)
                measured[name].append(json.loads(out.stdout))
                print(name, out.stdout.strip())
    seconds = {name: min(run["seconds"] for run in runs) for name, runs in measured.items()}
    above = max(run["above_resting_mb"] for run in measured["read"])
    result = {
        "megabytes": round(size_mb, 1),
        "decode_s": round(seconds["decode"], 2),
        "read_s": round(seconds["read"], 2),
        "ratio": round(seconds["read"] / seconds["decode"], 2),
        "peak_mb": round(max(run["peak_mb"] for run in measured["read"])),
        "peak_above_resting_over_bytes": round(above * 1.048576 / size_mb, 2),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
