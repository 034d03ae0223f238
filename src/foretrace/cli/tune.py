"""``foretrace tune``."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from foretrace.cli.output import STDOUT, Output
from foretrace.cli.progress import working
from foretrace.errors import InputError
from foretrace.report.tune import Tuned, tune_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Shape = tuple[int, int, int]


def tune(
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    rows: str | None = None,
    dim: int | None = None,
    hidden: int | None = None,
    target: str | None = None,
    folder: Annotated[Path, Parameter(name="--out")],
    out: Output = STDOUT,
) -> None:
    """Measure every path of the fused layers on this machine's GPU, and keep the times in a table.

    The layers read it, and take the fastest path, where `FORETRACE_FUSED_TABLES` names its folder. Shapes that the
    table already holds are measured anew, the others stay. Without shapes and target the ones that foretrace ships
    times for are measured. It needs a CUDA GPU and measures in bf16.

    Args:
        arguments: Arguments of the target's factory, after `--`.
        rows: Rows of x, all leading dimensions together, comma-separated: `1,64,8192`.
        dim: Features of x.
        hidden: Features of gate and up.
        target: Take the shapes of this target's gated MLPs, with the rows that its arguments bring.
        folder: Folder for the table.
        out: How and where to show it.
    """
    out.check()
    sizes = _sizes(rows, dim, hidden)
    if target is not None and sizes:
        raise InputError("a target brings shapes of its own", hint="give it, or --rows, --dim and --hidden")
    if arguments and target is None:
        raise InputError(f"`{arguments[0]}` is no option", hint="only a `--target` takes arguments, after `--`")
    import torch  # noqa: PLC0415 - slow to import

    if not torch.cuda.is_available():
        raise InputError(
            "tuning measures kernels, and there is no CUDA GPU here", hint="run it where the layers will run"
        )
    from foretrace.fused.tuning import table  # noqa: PLC0415 - imports torch
    from foretrace.fused.tuning import tune as tuning  # noqa: PLC0415 - as above

    path = folder / table.file_name(torch.cuda.get_device_name())
    known = prepare(path)
    with working() as progress:
        shapes = sizes or (_shapes_of(target, arguments) if target is not None else tuning.SHAPES)
        with tempfile.TemporaryDirectory() as scratch:
            text = tuning.tune(Path(scratch), _told(shapes, progress)).read_text(encoding="utf-8")
    measured = json.loads(text)
    keep(measured, known, path)
    record = Tuned(measured["device"], str(path), tuple(measured["rows"]))
    out.emit(lambda: tune_document(record), record.to_json)


def prepare(path: Path) -> list[dict[str, Any]]:
    """Make the folder of a table before anything is measured for it; the rows that are there already.

    Raises:
        InputError: The file is no table, or cannot be read; or its folder cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return []
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
        for row in rows:
            _shape(row)
    except OSError as error:
        raise InputError(f"cannot use `{path}`: {error.strerror}", hint="give another `--out`") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"`{path}` is no table of measured times", hint="give another `--out`") from error
    return rows


def keep(measured: Mapping[str, Any], known: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a measured table, with those of the ``known`` rows whose shapes it does not hold before its own.

    Raises:
        InputError: The file cannot be written.
    """
    from foretrace.fused.tuning import table  # noqa: PLC0415 - imports torch

    new = {_shape(row) for row in measured["rows"]}
    rows = [row for row in known if _shape(row) not in new] + measured["rows"]
    try:
        path.write_text(table.text({**measured, "rows": rows}), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror}", hint="give another `--out`") from error


def _shape(row: dict[str, Any]) -> tuple[str, int, int, int]:
    return row["mode"], row["rows"], row["dim"], row["hidden"]


def _sizes(rows: str | None, dim: int | None, hidden: int | None) -> tuple[Shape, ...]:
    if rows is None and dim is None and hidden is None:
        return ()
    if rows is None or dim is None or hidden is None:
        raise InputError("a shape needs `--rows`, `--dim` and `--hidden`", hint="--rows 1,8192 --dim 768 --hidden 3072")
    words = [word.strip() for word in rows.split(",")]
    counts = [int(word) for word in words if word.isdecimal()]
    if len(counts) < len(words) or min(*counts, dim, hidden) < 1:
        raise InputError(
            f"`{rows}` rows of {dim} → {hidden} are no shapes", hint="--rows 1,8192 --dim 768 --hidden 3072"
        )
    return tuple((count, dim, hidden) for count in dict.fromkeys(counts))


def _shapes_of(target: str, arguments: Sequence[str]) -> tuple[Shape, ...]:
    from foretrace.cli import swap  # noqa: PLC0415 - imports torch

    modules = swap.gated_mlps(swap.build(swap.find_target(target, arguments)))
    shapes = tuple(dict.fromkeys((c.rows, m.dim or 0, m.hidden or 0) for m in modules for c in m.calls if c.rows))
    if not shapes:
        raise InputError(
            f"`{target}` calls no gated MLP that the fused layers serve",
            hint=f"`foretrace fuse {shlex.quote(target)}` says why",
        )
    return shapes


def _told(shapes: Sequence[Shape], progress: Callable[[str, int, int], None]) -> Iterator[Shape]:
    for number, shape in enumerate(shapes):
        progress(f"measuring {' × '.join(map(str, shape))}", number, len(shapes))
        yield shape
