"""The fused gated MLP against its peers, side by side on this machine's GPU.

    python bench/fused_mlp.py --out bench/results/fused_h200.json [--shapes 8192x768x3072 …] [--contenders ours quack …]

GPU time is the time in which a kernel ran, the L2 flushed before each call; call time is wall time with the host in it;
graph time is a call inside a CUDA graph. Random bf16 data, three sets of buffers in turn, medians; tanh GELU unless
``--activation`` says otherwise. Training is forward and backward with every gradient.

``reduce-overhead`` is a CUDA graph already and cannot be captured: its graph time is the time from the start of the
first to the end of the last of ten calls in a row, by CUDA events, all queued while the GPU slept, over ten. So the
copy of x and the gap between two graphs are in it, and the host, which launches each graph, is in its call time alone.

Kept of each contender, too: ``kernel_us``, the median time of every kernel of a call in order, where all calls launched
the same (one that starts early waits for its predecessor in its own time, so they can add up to more than the GPU
time); ``difference`` from eager in bf16, ‖y - eager‖ / ‖eager‖ of a forward; ``peak_bytes`` of training. ``gpu_state``
is the SM clock and the power draw under the first contender's load, after the last round.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import importlib.metadata
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fused_timing
import torch
from fused_peers import ARE_GRAPHS, FOR_FEW_ROWS, FOR_MANY_ROWS, PEERS, Mlp, eager
from torch import Tensor

from foretrace.fused import plan
from foretrace.fused.tuning import measure
from foretrace.fused.tuning.tune import SETS, data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
ROUNDS = 3
REPEATS = 5
# a compiled function compiles, warms up and records a CUDA graph, each once a set
WARM_UP = 3 * SETS
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits")
NVIDIA_SMI_SECONDS = 10


def step(mlp: Mlp, sets: Sequence[Sequence[Tensor]], dy: Tensor | None, i: int) -> None:
    """One call, with its backward where ``dy`` is given."""
    tensors = sets[i % SETS]
    if dy is None:
        with torch.no_grad():
            mlp(*tensors)
        return
    for tensor in tensors:
        tensor.grad = None
    mlp(*tensors).backward(dy)  # type: ignore[no-untyped-call] # PyTorch's own


def forget(sets: Sequence[Sequence[Tensor]]) -> None:
    """Drop every gradient."""
    for tensor in itertools.chain(*sets):
        tensor.grad = None


def summary(times: list[float]) -> dict[str, float]:
    """Median, lowest and highest, µs."""
    return {"median": measure.middle(times), "min": round(min(times), 2), "max": round(max(times), 2)}


def kernel_medians(calls: Sequence[measure.Launched]) -> list[tuple[str, float]] | None:
    """The median time of every kernel, µs, in order; nothing where two calls launched different ones."""
    names = [[name for name, _ in call.kernels] for call in calls]
    if any(n != names[0] for n in names):
        return None
    by_place = zip(*(call.kernels for call in calls), strict=True)
    return [(kernels[0][0], measure.middle([us for _, us in kernels])) for kernels in by_place]


def reason(error: Exception) -> str:
    """Why there is no result, on a line."""
    return f"{type(error).__name__}: {str(error)[:200]}"


@dataclass(slots=True)
class Contender:
    """A contender at one shape, and what was measured of it so far."""

    name: str
    run: Callable[[int], object]
    kernels: list[str]
    difference: float
    launched: list[measure.Launched] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)

    def measure(self, kind: str) -> None:
        """A few more times of a kind, or the reason why there are none."""
        if kind in self.unmeasured:
            return
        try:
            if kind == "call_us":
                new = fused_timing.call_times(self.run, repeats=REPEATS)
            else:
                in_graph = fused_timing.burst_times if self.name in ARE_GRAPHS else fused_timing.graph_times
                new = in_graph(self.run, repeats=REPEATS)
        except Exception as error:  # noqa: BLE001 - a peer that cannot be captured, say, keeps its other times
            traceback.print_exc(limit=2)
            self.unmeasured[kind] = reason(error)
            self.times.pop(kind, None)
        else:
            self.times[kind] = self.times.get(kind, []) + new

    def result(self) -> dict[str, Any]:
        """As it is written."""
        found: dict[str, Any] = {"kernels": self.kernels, "difference": self.difference}
        found["gpu_us"] = summary([call.busy_us for call in self.launched])
        found |= {kind: summary(times) for kind, times in self.times.items()}
        found["kernel_us"] = kernel_medians(self.launched)
        return found | ({"unmeasured": self.unmeasured} if self.unmeasured else {})


def difference(mlp: Mlp, activation: str, tensors: Sequence[Tensor], *, training: bool) -> float:
    """‖y - eager‖ / ‖eager‖ of one forward in bf16: a few thousandths of rounding, and more for another function."""
    with torch.set_grad_enabled(training):  # as in the measured calls, or a compiled one would compile again
        y = mlp(*tensors).detach().float()
    with torch.no_grad():
        expected = eager(activation)(*tensors).float()
    return round(float((y - expected).norm() / expected.norm()), 5)


def gpu_state(call: Callable[[int], object]) -> dict[str, float] | None:
    """SM clock and power draw, by nvidia-smi while ``call`` keeps the GPU busy; nothing where it does not say."""
    try:
        smi = subprocess.Popen(NVIDIA_SMI, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return None
    end = time.monotonic() + NVIDIA_SMI_SECONDS
    while smi.poll() is None and time.monotonic() < end:
        for i in range(10 * SETS):
            call(i)
        torch.cuda.synchronize()
    smi.kill()  # it answered, or never will
    out, _ = smi.communicate()
    try:
        clock, power = out.splitlines()[0].split(",")
        return {"sm_mhz": float(clock), "power_w": float(power)}
    except (IndexError, ValueError):
        return None


def compare(
    names: Sequence[str], activation: str, shape: tuple[int, int, int], *, training: bool, rounds: int
) -> dict[str, Any]:
    """Every time of every contender at one shape, or the reason why there is none; and the GPU's state at the end.

    Contenders take turns (GPU time: a call each, in random order; whole calls: a few in a row): the clock of a GPU at
    its power limit falls while it works, and must favour nobody.
    """
    sets = data(*shape, training=training)
    dy = torch.randn(shape[0], shape[1], device="cuda", dtype=torch.bfloat16) if training else None
    found: dict[str, Any] = {}
    contenders: list[Contender] = []
    for name in names:
        try:
            mlp = PEERS[name](activation)
            run: Callable[[int], object] = partial(step, mlp, sets, dy)
            for i in range(WARM_UP):
                run(i)
            apart = difference(mlp, activation, sets[0], training=training)
            kernels = [kernel for kernel, _ in measure.launched([run], 1)[0][0].kernels]
            contenders.append(Contender(name, run, kernels, apart))
        except Exception as error:  # noqa: BLE001 - a peer that is missing or fails is a result too
            traceback.print_exc(limit=2)
            found[name] = {"failed": reason(error)}
    for contender, ran in zip(contenders, measure.launched([c.run for c in contenders], rounds * REPEATS), strict=True):
        contender.launched = ran
    for kind in ("call_us", "graph_us") if shape[0] <= plan.MAX_ROWS else ("call_us",):
        for turn in range(rounds):
            for contender in (*contenders[turn:], *contenders[:turn]):
                contender.measure(kind)
    state = gpu_state(contenders[0].run) if contenders else None
    for contender in contenders:
        found[contender.name] = contender.result()
        if training:
            found[contender.name]["peak_bytes"] = fused_timing.peak_bytes(contender.run, partial(forget, sets))
    return {"gpu_state": state, "times": {n: found[n] for n in names}}


def names_for(shape: tuple[int, int, int], wanted: Sequence[str], without: Sequence[str]) -> list[str]:
    """The contenders that mean something for a shape."""
    skipped = set(without) | (FOR_MANY_ROWS if shape[0] <= plan.MAX_ROWS else FOR_FEW_ROWS)
    return [n for n in PEERS if n in wanted and n not in skipped]


def release() -> None:
    """Forget what was compiled and recorded for the last shape, and give its memory back."""
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()


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
    state = row["gpu_state"]
    at = f", {state['sm_mhz']:.0f} MHz at {state['power_w']:.0f} W" if state else ""
    print(f"\n{row['rows']} × {row['dim']} × {row['hidden']} {row['mode']}: {row['path']}{at}")
    mine = row["times"].get("ours", {})
    for name, found in row["times"].items():
        if "failed" in found:
            print(f"  {name:15} {found['failed'][:90]}")
            continue
        cells = []
        for kind in ("gpu_us", "call_us", "graph_us"):
            if kind in found:
                ratio = f"{found[kind]['median'] / mine[kind]['median']:5.2f}×" if kind in mine else " " * 6
                cells.append(f"{kind[:-3]:>6} {found[kind]['median']:9.1f} µs {ratio}")
        kernels = f"{len(found['kernels'])} kernels, {found['difference']:.4f} from eager"
        print(f"  {name:15}", "  ".join(cells), f"  {kernels}", flush=True)
        for kind, why in found.get("unmeasured", {}).items():
            print(f"  {'':15} no {kind}: {why[:90]}")


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="ROWSxDIMxHIDDEN")
    parser.add_argument("--modes", nargs="+", default=("forward", "training"), choices=("forward", "training"))
    parser.add_argument("--contenders", nargs="+", default=tuple(PEERS), choices=tuple(PEERS))
    parser.add_argument("--without", nargs="*", default=(), choices=sorted(PEERS))
    parser.add_argument("--activation", default="gelu_tanh", choices=("gelu_tanh", "silu"))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"turns of {REPEATS} repeats, of each contender")
    args = parser.parse_args()
    torch.manual_seed(0)
    first = first_call_seconds()
    print(f"first call: {first['cold']} s with a cold Triton cache, {first['warm']} s with a warm one")
    rows = []
    for text in args.shapes:
        rows_, dim, hidden = map(int, text.split("x"))
        shape = (rows_, dim, hidden)
        for mode in args.modes if rows_ > plan.MAX_ROWS else ("forward",):
            training = mode == "training"
            release()
            names = names_for(shape, args.contenders, args.without)
            found = compare(names, args.activation, shape, training=training, rounds=args.rounds)
            choice = plan.choose(0, plan.bucket(rows_), dim, hidden, training, True, False, True, True)  # noqa: FBT003
            row = {"rows": rows_, "dim": dim, "hidden": hidden, "mode": mode, "path": choice.path, "why": choice.why}
            rows.append({**row, **found})
            print_row(rows[-1])
            result = {
                "when": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                "device": torch.cuda.get_device_name(),
                "versions": versions(),
                "command": " ".join(["python", *sys.argv]),
                "activation": args.activation,
                "rounds": args.rounds,
                "repeats": REPEATS,
                "first_call_seconds": first,
                "rows": rows,
            }
            args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
