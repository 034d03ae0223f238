"""How much memory reading takes, measured from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import resource, sys
from foretrace.run import read
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
resting = peak()
run = read(sys.argv[1])
print(peak() - resting, len(run.host), len(run.activities))
"""
MEGABYTES = 20


def large(path: Path, spoil: bytes) -> int:
    """Ops, launches and kernels, with ``spoil`` in the name of every tenth op; how many of each."""
    count = 0
    with path.open("wb") as out:
        out.write(b'{"schemaVersion":1,"traceEvents":[\n')
        while out.tell() < MEGABYTES * 1_000_000:
            name = b"aten::addmm" + (spoil if count % 10 == 0 else b"")
            shapes = json.dumps([[64, 128 + count % 7], [128, 256]]).encode()
            ts = count * 40
            out.write(
                b",\n"
                * (count > 0)
                + b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 4242, "tid": 4242, "ts": %d.125, "dur": 30.5,\n'
                b'"args": {"External id": %d,"Input Dims": %s,"Input type": ["float", "float"],"Ev Idx": %d}},\n'
                b'{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242,\n'
                b'"ts": %d.500, "dur": 5.000, "args": {"External id": %d, "cbid": 211, "correlation": %d}},\n'
                b'{"ph": "X", "cat": "kernel", "name": "gemm_kernel_%d", "pid": 0, "tid": 7, "ts": %d.000,\n'
                b'"dur": 9.000, "args": {"External id": %d, "device": 0, "stream": 7, "correlation": %d}}'
                % (name, ts, count, shapes, count, ts + 3, count, count + 1, count % 50, ts + 12, count, count + 1)
            )
            count += 1
        out.write(b"\n]}\n")
    return count


@pytest.mark.parametrize(
    "spoil", [b"", rb" C:\users\x", b' "quoted"', b"\x01\xff"], ids=["strict", "path", "quote", "control"]
)
def test_peak_memory_stays_under_four_times_the_bytes(tmp_path: Path, spoil: bytes) -> None:
    """Above the resting size, on 20 MB, strict and repaired alike."""
    path = tmp_path / "large.json"
    count = large(path, spoil)
    out = subprocess.run([sys.executable, "-c", PROGRAM, path], check=True, capture_output=True, text=True).stdout
    above, host, activities = map(int, out.split())
    assert (host, activities) == (2 * count, count)
    assert above < 4 * path.stat().st_size
