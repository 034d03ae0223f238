"""Read mutated traces: every input ends in a run whose invariants hold, or in a one-line error for people.

python bench/fuzz_reader.py --inputs 10000 --seed 0

Recorded traces are cut, flipped, spliced and spoilt in the ways that real writers spoil them. Any other ending, or more
than the time limit, is printed with the seed that reproduces it, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.errors import ForetraceError
from foretrace.run import read

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench/results/fuzz_reader.json"
LARGEST_BYTES = 200_000
LIMIT_S = 10
PACKED = (True, *(False,) * 9)

SPOILS = (
    *(b"NaN", b"-inf", b"N/A", b"1e999", b"-1", b"null", b"{}", b"[]", b'"7"', b"9" * 30, b"0.0000001", b"1.5e3"),
    *(b"\\", b'"', b"\n", b"\x00", b"\x1b[31m", b"\xf0\x9f", b"\r\n", b",", b"}", b"{", b"]", b"[", b":", b"\\ud83d"),
    *(b'{"schemaVersion":1,"traceEvents":[', b"]}", b'},{"ph":"X"', b'"ph":"B"', b'"ph":"E"', b'"dur":-5', b'"ts":""'),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one input ended: ``run``, ``error`` or ``fault``, and what there is to say about it."""

    seed: int
    ending: str
    detail: str
    seconds: float


@cache
def originals() -> tuple[bytes, ...]:
    """The recorded traces that are small enough to read thousands of times, and the files of known faults."""
    recorded = [
        gzip.decompress(path.read_bytes())
        for path in sorted(ROOT.glob("tests/data/*/*.json.gz"))
        if "cases" not in path.parts
    ]
    spoilt = [path.read_bytes() for path in sorted(ROOT.glob("tests/data/cases/c*"))]
    return tuple(text for text in recorded if len(text) < LARGEST_BYTES) + tuple(spoilt)


def _cut(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _behead(text: bytes, rng: random.Random) -> bytes:
    return text[rng.choice((1, rng.randrange(len(text) + 1))) :]


def _flip(text: bytes, rng: random.Random) -> bytes:
    out = bytearray(text)
    for _ in range(rng.randint(1, 30) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _splice(text: bytes, rng: random.Random) -> bytes:
    other = rng.choice(originals())
    begin = rng.randrange(len(other) + 1)
    at = rng.randrange(len(text) + 1)
    drop = rng.choice((0, rng.randrange(2000)))
    return text[:at] + other[begin : begin + rng.randrange(5000)] + text[at + drop :]


def _delete(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.randrange(400) :]


def _repeat(text: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(text) + 1), rng.randrange(3000)
    return text[: at + length] + text[at:]


def _spoil(text: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(SPOILS) + text[at + rng.randrange(3) :]
    return text


def _spoil_value(text: bytes, rng: random.Random) -> bytes:
    """Replace what follows a colon, which keeps the text sound JSON more often."""
    for _ in range(rng.randint(1, 8)):
        at = text.find(b":", rng.randrange(len(text) + 1)) + 1
        end = min((found for mark in b",}" if (found := text.find(bytes([mark]), at)) >= 0), default=at)
        text = text[:at] + rng.choice(SPOILS) + text[end:]
    return text


def _as_it_is(text: bytes, rng: random.Random) -> bytes:
    del rng
    return text


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_cut, _behead, _flip, _splice, _delete, _repeat, _spoil, _spoil_value),
)


def mutated(seed: int) -> bytes:
    """The input of ``seed``: a recorded trace after one to three mutations, now and then packed and spoilt again."""
    rng = random.Random(seed)
    text = rng.choice(originals())
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(MUTATIONS)(text, rng)
    if rng.choice(PACKED):
        text = rng.choice((_cut, _flip, _splice, _as_it_is))(gzip.compress(text, compresslevel=1), rng)
    return text


def outcome(seed: int, folder: str) -> Outcome:
    """Read the input of ``seed`` and say how it ended."""
    path = Path(folder) / f"{seed}.json"
    path.write_bytes(mutated(seed))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LIMIT_S)
    begin = time.perf_counter()
    try:
        ending, detail = _ending(path)
    except BaseException:  # noqa: BLE001 - whatever escapes is a finding
        ending, detail = "fault", traceback.format_exc()
    finally:
        signal.alarm(0)
        path.unlink()
    return Outcome(seed, ending, detail, time.perf_counter() - begin)


def _ending(path: Path) -> tuple[str, str]:
    try:
        run = read(path)
    except ForetraceError as error:
        message = str(error).replace(str(path), "FILE")
        return ("fault", f"not one line: {message!r}") if "\n" in message else ("error", message)
    run.check()
    for index in range(min(3, len(run.activities))):
        run.activity(index)
    texts = [note.text for note in run.notes]
    assert all(text.isprintable() for text in texts), texts
    return "run", ",".join(sorted(note.kind for note in run.notes if note.partial))


def _too_long(signum: int, frame: Any) -> None:  # noqa: ANN401 - what signal handlers take
    raise TimeoutError(f"more than {LIMIT_S} s ({signum}, {frame})")


def main() -> None:
    """Read the inputs, print what went wrong, store the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.inputs)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(arguments.workers) as pool:
        outcomes = list(pool.map(partial(outcome, folder=folder), seeds, chunksize=50))
    faults = [one for one in outcomes if one.ending == "fault"]
    for fault in faults[:20]:
        print(f"seed {fault.seed} ({fault.seconds:.1f} s):\n{fault.detail}")
    result = {
        "inputs": len(outcomes),
        "seed": arguments.seed,
        **{ending: sum(one.ending == ending for one in outcomes) for ending in ("run", "error", "fault")},
        "repaired": sum(bool(one.detail) for one in outcomes if one.ending == "run"),
        "slowest_s": round(max(one.seconds for one in outcomes), 2),
        "seconds": round(time.perf_counter() - begin),
        "peak_mb_of_a_worker": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    print(Counter(one.detail.partition(":")[0][:60] for one in outcomes if one.ending == "error").most_common(8))
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
