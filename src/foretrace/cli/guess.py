"""``foretrace guess``."""

from __future__ import annotations

import shlex
from pathlib import Path  # noqa: TC003 - cyclopts reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from foretrace.cli.output import STDOUT, Output
from foretrace.errors import InputError
from foretrace.report.guess import guess_document
from foretrace.verdict import to_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from foretrace.verdict import Guess


def guess(
    target: str,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    on: str | None = None,
    variant: Literal["eager", "compile"] = "eager",
    grad: bool = False,
    write: Path | None = None,
    out: Output = STDOUT,
) -> None:
    """Predict the kernels of a module from its code and shapes: no GPU, no memory for weights.

    TARGET is `path/to/file.py:factory` or `package.module:factory`, as for `profile`; what follows `--` are the
    factory's keyword arguments. The factory runs on fake tensors, so a model of any size is built at once.

    Args:
        target: What to guess at.
        arguments: Arguments of the factory, after `--`.
        on: The device that the guess is about: a name in `foretrace devices`, or a TOML file.
        variant: As it is, or under `torch.compile`.
        grad: Let autograd record a module's forward.
        write: Keep the guess in this file, to be edited, committed and checked.
        out: How and where to show it.
    """
    out.check()
    _refuse_existing(write, force=out.force)
    made = of_target(target, arguments, on=on, variant=variant, grad=grad)
    if write is not None:
        _write(write, to_toml(made))
    flags = (
        f"{f' --on {shlex.quote(on)}' if on else ''}{' --variant compile' * (variant == 'compile')}{' --grad' * grad}"
    )
    command = f"foretrace guess {shlex.quote(target)}{flags}", f" -- {shlex.join(arguments)}" if arguments else ""
    out.emit(lambda: guess_document(made, str(write) if write else None, command), made.to_json)


def of_target(
    target: str, arguments: Sequence[str], *, on: str | None, variant: Literal["eager", "compile"], grad: bool
) -> Guess:
    """The guess at what a target builds.

    Raises:
        InputError: The target is a script, cannot be found, or cannot run on fake tensors.
    """
    from foretrace import capture  # noqa: PLC0415 - imports torch
    from foretrace.guess import guess_built  # noqa: PLC0415 - as above

    found = capture.parse_target(target, list(arguments))
    if isinstance(found, capture.Script):
        hint = found.factory_hint or "write `path/to/file.py:factory`; scripts can be profiled"
        raise InputError(f"`{target}` names no factory", hint=hint)

    def build() -> tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]:
        workload = found.build()
        return workload.call, workload.args, workload.kwargs

    return guess_built(build, name=found.name, on=on, variant=variant, grad=True if grad else None)


def _refuse_existing(path: Path | None, *, force: bool) -> None:
    if path is not None and path.exists() and not force:
        raise InputError(f"`{path}` is already there", hint="give another name, or `--force` to overwrite it")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror}", hint="give another `--write`") from error
