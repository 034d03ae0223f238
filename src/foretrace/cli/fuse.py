"""``foretrace fuse``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foretrace import devices
from foretrace.cli.output import STDOUT, Output
from foretrace.cli.progress import working
from foretrace.diff import diff
from foretrace.diff.statistics import FEWEST_STEPS
from foretrace.errors import InputError
from foretrace.report.fuse import Fuse, Measured, fuse_document
from foretrace.report.variants import variants
from foretrace.run import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from foretrace.capture import Target

_AFTER = "fused"


def fuse(
    target: str,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    check: bool = False,
    measure: bool = False,
    grad: bool = False,
    on: str | None = None,
    traces: Annotated[Path, Parameter(name="--out")] = Path("traces/fuse"),
    out: Output = STDOUT,
) -> int:
    """Say which modules the fused layers can replace, whether results agree, and what that buys.

    TARGET is `path/to/file.py:factory` or `package.module:factory`, as for `profile`; what follows `--` are the
    factory's keyword arguments. Gated MLPs are found by what they compute; one that cannot be served is refused in
    words. The path is the one that the measured table picks for the rows that the target's own arguments bring.

    Args:
        target: What to look through.
        arguments: Arguments of the factory, after `--`.
        check: Compare the swapped model's results with the original's; exit with 1 when they are further apart than
            rounding explains.
        measure: Profile the original and the swapped model, and say what changed.
        grad: Take the paths of a training step: autograd records the forward that is checked and measured. The backward
            is neither run nor compared.
        on: Ask for the paths on this device, which need not be here: a name in `foretrace devices`, or a TOML file.
        traces: Folder for the traces of `--measure`.
        out: How and where to show it.
    """
    out.check()
    there = None if on is None else devices.resolve(on)
    if there is not None and (check or measure):
        what = "`--check` runs on" if check else "`--measure` times"
        raise InputError(f"{what} the device that is here", hint="leave out `--on`")
    from foretrace.capture import claim_files  # noqa: PLC0415 - imports torch
    from foretrace.cli import swap, swap_check  # noqa: PLC0415 - as above

    found = swap.find_target(target, arguments)
    if measure:
        claim_files(found.name, ("eager", _AFTER), traces, force=out.force)  # before the work, not after it
    with working() as progress:
        progress("looking for gated MLPs", 0, 0)
        with swap.staged(there):
            workload = swap.build(found)
            modules = swap.gated_mlps(workload, training=grad, on=there)
        already = swap.already_fused(workload)
        name = swap.device_name(workload) if there is None else there.name
        record = Fuse(
            target, arguments, name, modules, grad=grad, already=already, is_here=there is None, measure=measure
        )
        checked = measured = None
        if check and record.replaceable:
            progress("checking", 0, 0)
            checked = swap_check.check(workload)
        del workload
        if measure and record.replaceable and not record.is_plain:
            measured = _measured(found, traces, progress, grad=grad, force=out.force)
    record = replace(record, check=checked, measured=measured)
    out.emit(lambda: fuse_document(record), record.to_json)
    if (check or measure) and not record.replaceable:
        raise InputError(
            f"nothing was swapped, so nothing could be {'checked' if check else 'measured'}",
            hint="the report says why" if record.modules or record.already else "give a target with a gated MLP",
        )
    return int(checked is not None and not checked.held)


def _measured(
    target: Target, traces: Path, progress: Callable[[str, int, int], None], *, grad: bool, force: bool
) -> Measured:
    from foretrace import capture  # noqa: PLC0415 - imports torch
    from foretrace.cli import swap  # noqa: PLC0415 - as above

    capture.register_variant(_AFTER, lambda call, _args, _kwargs: swap.swapped(call))
    captured = capture.capture_target(
        target,
        variants=("eager", _AFTER),
        out=traces,
        schedule=capture.Schedule(active=FEWEST_STEPS),
        grad=grad,
        unprofiled=False,  # both at once, below
        force=force,
        progress=progress,
    )
    for one in captured:
        if one.error is not None:
            raise one.error
    progress("timing both in turns", 0, 0)
    pair = swap.side_by_side(target, grad=grad)
    for one, unprofiled in zip(captured, (pair.before, pair.after), strict=True):
        assert one.environment is not None, "a capture without an error has one"
        one.files.amend(replace(one.environment, unprofiled=unprofiled, steady_ns=unprofiled.host_ns).to_json())
    before, after = (read(str(one.files.trace)) for one in captured)
    rows = variants([("eager", before), (_AFTER, after)])
    return Measured(rows[0], rows[1], diff(before, after), pair.host, pair.device)
