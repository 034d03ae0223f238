"""The fused gated MLP against its peers, side by side on this machine's GPU.

    python bench/fused_mlp.py --out bench/results/fused_h200.json [--shapes 8192x768x3072 …] [--without quack …]

GPU time is the time in which a kernel ran, the L2 flushed before each call; call time is wall time with the host in it;
graph time is a call inside a CUDA graph. Random bf16 data, three sets of buffers in turn, medians; tanh GELU unless
``--activation`` says otherwise. Training is forward and backward with every gradient.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foretrace.fused import gated_mlp, plan, reference
from foretrace.fused.tuning import measure

Mlp = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

SHAPES = (
    "8192x768x3072",
    "8192x2304x9216",
    "8192x2048x16384",
    "8192x4096x14336",
    "1x2048x16384",
    "16x2048x16384",
    "64x2048x16384",
    "1x768x3072",
    "64x768x3072",
)
SETS = 3
ROUNDS = 3
FEW_ROWS = 64


def eager(activation: str) -> Mlp:
    """Three linears, the activation and a product."""
    return partial(reference.gated_mlp, activation=activation)


def compiled(activation: str, mode: str | None = None) -> Mlp:
    """Eager under ``torch.compile``."""
    return torch.compile(eager(activation), mode=mode, fullgraph=True)


def liger(activation: str) -> Mlp:
    """Liger's pointwise kernel between three linears, as its layers call it."""
    ops = importlib.import_module("liger_kernel.ops")
    function = {"gelu_tanh": ops.LigerGELUMulFunction, "silu": ops.LigerSiLUMulFunction}[activation]

    def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        linear = torch.nn.functional.linear
        return linear(function.apply(linear(x, gate), linear(x, up)), down)

    return mlp


def quack(activation: str) -> Mlp:
    """QuACK's gated MLP in its default configuration; its first weight interleaves gate and up, packed beforehand."""
    function = importlib.import_module("quack.mlp").mlp_func
    name = {"gelu_tanh": "geglu", "silu": "swiglu"}[activation]
    packed: dict[int, Tensor] = {}

    def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        weight = packed.get(gate.data_ptr())
        if weight is None:
            weight = torch.stack((gate.detach(), up.detach()), 1).flatten(0, 1).requires_grad_(gate.requires_grad)
            packed[gate.data_ptr()] = weight
        weight.grad = None
        y: Tensor = function(x, weight, down, activation=name, tuned=False)
        return y

    return mlp


def ours(activation: str) -> Mlp:
    """The layer's own function, by the path its plan picks."""
    return partial(gated_mlp, activation=activation)


def forced(activation: str, path: str) -> Mlp:
    """Ours by one path, for the table the plan reads."""

    def mlp(*args: Tensor) -> Tensor:
        with plan.forced(path):
            return gated_mlp(*args, activation=activation)

    return mlp


PEERS: dict[str, Callable[[str], Mlp]] = {
    "ours": ours,
    "eager": eager,
    "compile": compiled,
    "max-autotune": partial(compiled, mode="max-autotune-no-cudagraphs"),
    "liger": liger,
    "quack": quack,
    "pointwise": partial(forced, path="pointwise"),
    "fused": partial(forced, path="fused"),
    "rows": partial(forced, path="rows"),
    "rows_tma": partial(forced, path="rows_tma"),
}


def data(rows: int, dim: int, hidden: int, *, training: bool) -> list[tuple[Tensor, ...]]:
    """Sets of x and the three weights, scaled so that every product has unit variance."""
    make = partial(torch.randn, device="cuda", dtype=torch.bfloat16)
    shapes = (((rows, dim), 1), ((hidden, dim), dim), ((hidden, dim), dim), ((dim, hidden), hidden))
    return [tuple((make(s) / n**0.5).requires_grad_(training) for s, n in shapes) for _ in range(SETS)]


def step(mlp: Mlp, sets: Sequence[tuple[Tensor, ...]], dy: Tensor | None, i: int) -> None:
    """One call, with its backward where ``dy`` is given."""
    tensors = sets[i % SETS]
    if dy is None:
        with torch.no_grad():
            mlp(*tensors)
        return
    for tensor in tensors:
        tensor.grad = None
    mlp(*tensors).backward(dy)  # type: ignore[no-untyped-call] # PyTorch's own


def summary(times: list[float]) -> dict[str, float]:
    """Median, lowest and highest, µs."""
    return {"median": measure.middle(times), "min": round(min(times), 2), "max": round(max(times), 2)}


def compare(names: Sequence[str], activation: str, shape: tuple[int, int, int], *, training: bool) -> dict[str, Any]:
    """Every time of every contender at one shape, or the reason why there is none.

    Contenders take turns, a few calls each: the clock of a GPU at its power limit drifts, and must favour nobody.
    """
    sets = data(*shape, training=training)
    dy = torch.randn(shape[0], shape[1], device="cuda", dtype=torch.bfloat16) if training else None
    found: dict[str, Any] = {}
    runs: dict[str, Callable[[int], object]] = {}
    for name in names:
        try:
            run: Callable[[int], object] = partial(step, PEERS[name](activation), sets, dy)
            found[name] = {"kernels": measure.kernel_names(run)}
            runs[name] = run
        except Exception as error:  # noqa: BLE001 - a peer that is missing or fails is a result too
            traceback.print_exc(limit=2)
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
    kinds = {"gpu_us": measure.kernel_times, "call_us": measure.call_times}
    if shape[0] <= FEW_ROWS:
        kinds["graph_us"] = measure.graph_times
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _, kind, name in itertools.product(range(ROUNDS), kinds, runs):
        times[name, kind] += kinds[kind](runs[name], repeats=5)
    for (name, kind), values in times.items():
        found[name][kind] = summary(values)
    if training:
        for name, run in runs.items():
            found[name]["peak_bytes"] = measure.peak_bytes(run)
    return found


def names_for(shape: tuple[int, int, int], without: Sequence[str]) -> list[str]:
    """The contenders that mean something for a shape."""
    few = shape[0] <= FEW_ROWS
    skipped = set(without) | ({"fused"} if few else {"rows", "rows_tma"})
    return [n for n in PEERS if n not in skipped]


FIRST_CALL = """
import time, torch
from foretrace.fused import gated_mlp
x = torch.randn(8192, 768, device="cuda", dtype=torch.bfloat16)
gate, up, down = (torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in ((3072, 768), (3072, 768), (768, 3072)))
torch.nn.functional.linear(x, gate)
torch.cuda.synchronize()
start = time.perf_counter()
gated_mlp(x, gate, up, down, activation="gelu_tanh")
torch.cuda.synchronize()
print(time.perf_counter() - start)
"""


def first_call_seconds() -> dict[str, float]:
    """The first call of a new process at 8192 × 768 × 3072: with an empty Triton cache, then with the one it left."""
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in ("cold", "warm"):
            environment = {**os.environ, "TRITON_CACHE_DIR": cache}
            command = [sys.executable, "-c", FIRST_CALL]
            out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            found[name] = round(float(out), 3)
    return found


def versions() -> dict[str, str]:
    """Of everything that was measured."""
    found = {"python": platform.python_version(), "cuda": torch.version.cuda or "", "torch": torch.__version__}
    for package in ("triton", "liger-kernel", "quack-kernels"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def print_row(row: dict[str, Any]) -> None:
    """GPU and call time of every contender, and peer ÷ ours."""
    print(f"\n{row['rows']} × {row['dim']} × {row['hidden']} {row['mode']}: {row['path']}")
    mine = row["times"]["ours"]
    for name, found in row["times"].items():
        if "failed" in found:
            print(f"  {name:14} {found['failed'][:90]}")
            continue
        cells = []
        for kind in ("gpu_us", "call_us", "graph_us"):
            if kind in found and kind in mine:
                ratio = found[kind]["median"] / mine[kind]["median"]
                cells.append(f"{kind[:-3]:>6} {found[kind]['median']:9.1f} µs {ratio:5.2f}×")
        print(f"  {name:14}", "  ".join(cells), f"  {len(found['kernels'])} kernels", flush=True)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="ROWSxDIMxHIDDEN")
    parser.add_argument("--modes", nargs="+", default=("forward", "training"), choices=("forward", "training"))
    parser.add_argument("--without", nargs="*", default=(), choices=sorted(PEERS))
    parser.add_argument("--activation", default="gelu_tanh", choices=("gelu_tanh", "silu"))
    args = parser.parse_args()
    torch.manual_seed(0)
    first = first_call_seconds()
    print(f"first call: {first['cold']} s with a cold Triton cache, {first['warm']} s with a warm one")
    rows = []
    for text in args.shapes:
        rows_, dim, hidden = map(int, text.split("x"))
        shape = (rows_, dim, hidden)
        for mode in args.modes if rows_ > FEW_ROWS else ("forward",):
            training = mode == "training"
            torch.compiler.reset()
            times = compare(names_for(shape, args.without), args.activation, shape, training=training)
            choice = plan.choose(0, plan.bucket(rows_), dim, hidden, training, True, False, True)  # noqa: FBT003
            row = {"rows": rows_, "dim": dim, "hidden": hidden, "mode": mode, "path": choice.path, "why": choice.why}
            rows.append({**row, "times": times})
            print_row(rows[-1])
            result = {
                "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                "device": torch.cuda.get_device_name(),
                "versions": versions(),
                "command": " ".join(["python", *sys.argv]),
                "activation": args.activation,
                "first_call_seconds": first,
                "rows": rows,
            }
            args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
