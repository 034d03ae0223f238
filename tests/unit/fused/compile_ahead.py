"""Compile every kernel in its shipped configurations for one architecture; one line each: name, resources, fp64.

Run as ``python compile_ahead.py 90``, without the interpreter.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from foretrace.fused.activation import ACTIVATIONS
from foretrace.fused.kernels import (
    gated_forward,
    hopper_backward,
    hopper_forward,
    hopper_rows,
    pointwise,
    rows,
)
from foretrace.fused.schedule import GROUP, TILE

if TYPE_CHECKING:
    from collections.abc import Iterator

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
HOPPER = 90
Job = tuple[str, Any, dict[str, int]]


def source(function: Any, values: list[Any], pointers: str = "bf16") -> Any:
    """A Triton source: tensors as pointers on 16 bytes, numbers as multiples of 16, the rest constant."""
    signature, constants, attributes = {}, {}, {}
    for i, (parameter, value) in enumerate(zip(function.params, values, strict=True)):
        if parameter.is_constexpr:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
            continue
        signature[parameter.name] = {"ptr": f"*{pointers}", "parts": "*fp32", "counters": "*i32"}.get(value, "i32")
        if not parameter.do_not_specialize:
            attributes[(i,)] = [["tt.divisibility", 16]]
    return ASTSource(function, signature, constants, attributes)


def gluon_source(function: Any, values: list[Any]) -> Any:
    """A Gluon source: pairs are blocks of TMA descriptors."""
    signature, constants = {}, {}
    for parameter, value in zip(function.params, values, strict=True):
        if isinstance(value, tuple):
            layout = gl.NVMMASharedLayout.get_default_for(list(value), gl.bfloat16)
            signature[parameter.name] = f"tensordesc<bf16[{value[0]}, {value[1]}],{layout!r}>"
        elif parameter.is_constexpr:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        else:
            signature[parameter.name] = {"ptr": "*bf16", "parts": "*fp32", "counters": "*i32"}.get(value, "i32")
    return GluonASTSource(function, signature, constants)


def portable_jobs() -> Iterator[Job]:
    """The kernels for every architecture."""
    for activation in ACTIVATIONS:
        forward, backward = pointwise.foretrace_glu, pointwise.foretrace_glu_backward
        yield "glu", source(forward, ["ptr"] * 3 + [16] * 4 + [activation, 2048]), {"num_warps": 4}
        constants = [True, activation, 2048]
        yield "glu backward", source(backward, ["ptr"] * 6 + [16] * 7 + constants), {"num_warps": 4}
    for bm in (16, 32, 64):
        up, down = rows.GATE_UP, rows.DOWN
        values = ["ptr"] * 4 + ["counters"] + [16] * 7 + ["silu", bm, up.bn, up.bk, False]
        yield "rows", source(rows.foretrace_gate_up, values), {"num_warps": up.warps, "num_stages": up.stages}
        values = ["ptr"] * 3 + ["parts", "counters"] + [16] * 5 + [8, bm, down.bn, down.bk, False]
        yield "rows down", source(rows.foretrace_down, values), {"num_warps": down.warps, "num_stages": down.stages}


def hopper_jobs() -> Iterator[Job]:
    """The kernels for sm_90."""
    warps = {"num_warps": 4}
    for activation in ACTIVATIONS:
        for save in (False, True):
            blocks = [(TILE, hopper_forward.BK)] * 5 + [(TILE // 2, TILE // 4)] * 4
            values = [*blocks, "counters", *[16] * 7, save, activation, hopper_forward.STAGES, GROUP]
            yield "gated forward", gluon_source(hopper_forward.foretrace_gated_forward, values), warps
        for b in (hopper_backward.SHALLOW, hopper_backward.DEEP):
            blocks = [(b.bm, b.bk), (b.bk, b.bn)] + [(b.bm // 2, b.cols)] * 5
            values = [*blocks, 16, 16, 16, activation, b.stages, b.group]
            yield "gated backward", gluon_source(hopper_backward.foretrace_gated_backward, values), warps
    c = gated_forward.DEFAULT
    constants = [True, "silu", c.bm, c.bn, c.bk, c.group]
    options = {"num_warps": c.warps, "num_stages": c.stages}
    yield (
        "portable forward",
        source(gated_forward.foretrace_gated_forward_portable, ["ptr"] * 6 + [16] * 8 + constants),
        options,
    )
    for bm in (16, 32, 64):
        c = hopper_rows.FEWEST if bm == 16 else hopper_rows.DEFAULT
        blocks = [(bm, c.bk), (c.bn, c.bk), (c.bn, c.bk)]
        values = [*blocks, "ptr", 16, 16, 16, 16, "gelu", c.stages(2 * c.bn, bm), int(c.stagger)]
        yield "rows", gluon_source(hopper_rows.foretrace_gate_up_tma, values), warps
        values = [*blocks[:2], "ptr", "ptr", 16, 16, 16, 16, 16, 8, c.stages(c.bn, bm), int(c.stagger)]
        yield "rows down", gluon_source(hopper_rows.foretrace_down_tma, values), warps


def resources(cubin: bytes) -> str:
    """Stack and local memory of a compiled kernel, as cuobjdump reports them."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(CUOBJDUMP), "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"STACK:\d+", text), re.search(r"LOCAL:\d+", text)
    return " ".join(match.group() for match in found if match is not None)


def main() -> None:
    """Compile and print."""
    architecture = int(sys.argv[1])
    jobs = [*portable_jobs(), *(hopper_jobs() if architecture == HOPPER else ())]
    for name, job, options in jobs:
        kernel = triton.compile(job, target=GPUTarget("cuda", architecture, 32), options=options)
        double = "yes" if ".f64" in kernel.asm["ptx"] else "no"
        sys.stdout.write(f"{name}: {resources(kernel.asm['cubin'])} f64:{double}\n")


if __name__ == "__main__":
    main()
