"""The file of a guess: TOML, made to be read, edited and committed beside the code that it speaks of."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.errors import InputError
from foretrace.verdict.records import SCHEMA, Guess, GuessedKernel
from foretrace.verdict.words import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HEAD = """\
# What should run, stated before looking. `foretrace check TRACE --guess THIS_FILE` holds it against a trace.
# Edit it freely: a key that is left out is left open. Only `op_class` is needed for each kernel.
"""
_VARIANTS = ("eager", "compile")
_CLASSES = (*CLASSES, "gemm-helper", "unknown")
_TOP = tuple(f.name for f in fields(Guess) if f.name != "kernels")
_KERNEL = tuple("from" if f.name == "source" else f.name for f in fields(GuessedKernel))


def to_toml(guess: Guess) -> str:
    """The guess as TOML; `from_toml` gives an equal guess back."""
    lines = [_HEAD, f"schema = {_value(SCHEMA)}"]
    lines += _pairs((name, getattr(guess, name)) for name in _TOP)
    lines += [] if guess.kernels else ["kernel = []"]
    for kernel in guess.kernels:
        values = {**kernel.to_json(), "phase": None if kernel.phase == "forward" else kernel.phase}
        lines += ["", "[[kernel]]", *_pairs((key, values[key]) for key in ("from", *_rest()))]
    return "\n".join(lines) + "\n"


def from_toml(text: str, where: str = "the guess") -> Guess:
    """A guess from the text of its file.

    Args:
        text: TOML as `to_toml` writes it.
        where: How errors call the file.

    Raises:
        InputError: It is no TOML, no guess, or has a key or a value that a guess cannot have.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{where} is not TOML: {error}", hint="`foretrace guess … --write FILE.toml` makes one"
        ) from error
    schema = content.pop("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(
            f"{where} has the schema `{schema}`, not `{SCHEMA}`", hint="write it anew with `foretrace guess`"
        )
    rows = content.pop("kernel", None)
    if rows is None:
        raise InputError(f"{where} lists no kernel", hint="a guess that nothing runs says so: `kernel = []`")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{where}: `kernel` is no list of tables", hint="start each kernel with `[[kernel]]`")
    kernels = tuple(_kernel(row, f"{where}, kernel {number}") for number, row in enumerate(rows, 1))
    _no_others(content, _TOP, where)
    guess: Guess = _converted({**content, "kernels": ()}, Guess, where)
    if guess.variant not in _VARIANTS:
        raise InputError(f"{where}: no variant `{guess.variant}`", hint=f"variants are {', '.join(_VARIANTS)}")
    _not_negative(guess, ("graphs", "batch", "flips_at"), where)
    return replace(guess, kernels=kernels)


def read_guess(path: str | Path) -> Guess:
    """The guess in a file.

    Raises:
        InputError: The file cannot be read or is no guess.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(
            f"cannot read the guess `{path}`: {reason}", hint="`foretrace guess … --write` makes one"
        ) from error
    return from_toml(text, f"`{path}`")


def _rest() -> tuple[str, ...]:
    return tuple(key for key in _KERNEL if key != "from")


def _kernel(row: dict[str, Any], where: str) -> GuessedKernel:
    _no_others(row, _KERNEL, where)
    source = {"source": row.pop("from")} if "from" in row else {}
    kernel: GuessedKernel = _converted({**row, **source}, GuessedKernel, where)
    if kernel.op_class not in _CLASSES:
        near = difflib.get_close_matches(kernel.op_class, _CLASSES, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"classes are {', '.join(_CLASSES)}"
        raise InputError(f"{where}: no class of kernels `{kernel.op_class}`", hint=hint)
    _not_negative(kernel, ("flops", "bytes", "floor_ns"), where)
    return replace(kernel, shapes=_tuples(kernel.shapes))


def _not_negative(record: Guess | GuessedKernel, names: Iterable[str], where: str) -> None:
    for name in names:
        value = getattr(record, name)
        if value is not None and value < 0:
            raise InputError(
                f"{where}: `{name}` is {value:,}, and nothing is below 0", hint="correct it or leave it out"
            )


def _tuples(value: Any) -> Any:  # noqa: ANN401 - nested lists of sizes
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _converted(content: Mapping[str, Any], kind: Any, where: str) -> Any:  # noqa: ANN401 - the TOML edge
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}", hint="see `foretrace guess … --write FILE.toml` for the form") from error


def _no_others(content: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    for key in content:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"keys are {', '.join(known)}"
            raise InputError(f"{where} has an unknown key `{key}`", hint=hint)


def _pairs(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in pairs if value is not None and value != ()]


def _value(value: Any) -> str:  # noqa: ANN401 - strings, numbers and lists of them
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    # JSON's strings and integers are TOML's, but for DEL, which TOML wants escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
