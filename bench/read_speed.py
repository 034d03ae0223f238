"""How fast a large trace is read to a full report, against a bare typed decode of the same file in the same run.

python bench/read_speed.py --megabytes 200 1000 --rounds 5

The decode makes every event an object and does nothing with it; `foretrace read` makes columns, links, nests, answers
every question and prints the page, on the cores that are there and on one alone. All are whole processes, run in turn;
medians and spread are printed and stored. Processor time is what to compare on a machine that others use too.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests/data/h200/llama4_prefill.json.gz"
RESULT = ROOT / "bench/results/read_speed.json"

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Compiled modules are kept, as they are wherever a package is installed."""

DECODE = """
import sys
from pathlib import Path
import msgspec
from foretrace.trace.schema import Event

class Trace(msgspec.Struct):
    traceEvents: list[Event]

msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Trace)
"""


def main() -> None:
    """Build each trace, measure the programs in turn, print and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[200])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    result = {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", *sys.argv]),
        "versions": {name: metadata.version(name) for name in ("foretrace", "msgspec", "numpy")},
        "cores": len(os.sched_getaffinity(0)),
        "rounds": arguments.rounds,
        "traces": [of_size(megabytes, arguments.rounds) for megabytes in arguments.megabytes],
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


def of_size(megabytes: float, rounds: int) -> dict[str, object]:
    """The three programs on one trace."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "large.json"
        make = [sys.executable, ROOT / "bench/make_large_trace.py", SOURCE, trace]
        subprocess.run([*make, "--megabytes", str(megabytes)], check=True)
        size = trace.stat().st_size
        read = [sys.executable, "-m", "foretrace", "read", str(trace)]
        every = os.sched_getaffinity(0)
        programs = {
            "decode": ([sys.executable, "-c", DECODE, str(trace)], every),
            "report": (read, every),
            "report_on_one_core": (read, {min(every)}),
        }
        measured: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
        measure(*programs["report"])  # once for the file cache and the compiled modules
        for _ in range(rounds):
            for name, program in programs.items():
                measured[name].append(measure(*program))
    return {
        "megabytes": round(size / 1e6, 1),
        **{name: {key: figures(runs, key) for key in runs[0]} for name, runs in measured.items()},
        "report_over_decode": {key: ratio(measured, "report", "decode", key) for key in ("wall_s", "cpu_s")},
        "report_over_one_core": {
            key: ratio(measured, "report", "report_on_one_core", key) for key in ("wall_s", "cpu_s")
        },
        "peak_over_file": round(statistics.median(run["peak_mb"] for run in measured["report"]) * 1e6 / size, 2),
    }


def measure(command: list[str], cores: set[int]) -> dict[str, float]:
    """One whole process and those that it started: wall seconds, processor seconds; the peak memory of the largest."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - there are no threads here
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        sys.exit(f"{command} ended with status {status}")
    return {"wall_s": wall, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss * 1024 / 1e6}


def figures(runs: list[dict[str, float]], key: str) -> dict[str, float]:
    """Median, least and most."""
    values = [run[key] for run in runs]
    return {"median": round(statistics.median(values), 2), "min": round(min(values), 2), "max": round(max(values), 2)}


def ratio(measured: dict[str, list[dict[str, float]]], one: str, other: str, key: str) -> float:
    """Median over rounds of one ÷ other, each round's neighbours in time."""
    pairs = zip(measured[one], measured[other], strict=True)
    return round(statistics.median(mine[key] / theirs[key] for mine, theirs in pairs), 2)


if __name__ == "__main__":
    main()
