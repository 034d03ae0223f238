"""What follows ``--`` on the command line, as keyword arguments of a factory."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any, Literal

from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_arguments(words: Sequence[str], factory: Callable[..., object]) -> dict[str, object]:
    """Read ``--dim 768 --name=x --bias --no-cache`` for ``factory``.

    A value becomes what the parameter's annotation says (int, float, bool, str, an optional or a union of them, a
    ``Literal``); without one, the first of int, float, bool, ``none`` and str that it can be.

    Raises:
        InputError: A word is no flag, the factory has no such parameter, a value does not fit, or one is missing.
    """
    name = getattr(factory, "__name__", "factory")
    signature = _signature(name, factory)
    parameters = _by_name(signature)
    hints = _hints(factory)
    arguments: dict[str, object] = {}
    for flag, text in _pairs(words):
        key = flag.replace("-", "_")
        if key not in parameters and key.startswith("no_") and key[3:] in parameters and text is None:
            arguments[key[3:]] = False
            continue
        if key not in parameters and not _takes_any(signature):
            raise _unknown(name, flag, parameters)
        arguments[key] = _convert(flag, text, hints.get(key, inspect.Parameter.empty))
    _check_complete(name, parameters, arguments)
    return arguments


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if not word.startswith("--") or word == "--":
            message = f"`{word}` is no argument of the form `--name value`"
            raise InputError(message, hint="arguments of a factory are named: `-- --dim 768 --hidden 3072`")
        flag, equals, text = word[2:].partition("=")
        if equals:
            yield flag, text
        elif waiting and not waiting[-1].startswith("--"):
            yield flag, waiting.pop()
        else:
            yield flag, None


def _signature(name: str, factory: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(factory)
    except ValueError as error:
        message = f"`{name}` does not say what arguments it takes"
        raise InputError(message, hint="wrap it in a function of your own") from error


def _by_name(signature: inspect.Signature) -> dict[str, inspect.Parameter]:
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return {name: one for name, one in signature.parameters.items() if one.kind in kinds}


def _takes_any(signature: inspect.Signature) -> bool:
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.parameters.values())


def _hints(factory: Callable[..., object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(factory)
    except (NameError, TypeError, AttributeError):
        # an annotation names what only a type checker imports; the plain ones still read as text
        plain = {"int": int, "float": float, "bool": bool, "str": str}
        written = getattr(factory, "__annotations__", {})
        return {name: plain.get(hint, hint) if isinstance(hint, str) else hint for name, hint in written.items()}


def _convert(flag: str, text: str | None, hint: Any) -> object:  # noqa: ANN401 - an annotation is anything
    if text is None:
        if hint in (bool, inspect.Parameter.empty):
            return True
        message = f"`--{flag}` needs a value"
        raise InputError(message, hint=f"write `--{flag} VALUE`")
    for read in _readers(hint):
        try:
            return read(text)
        except (ValueError, KeyError):
            continue
    message = f"`--{flag}` takes {_in_words(hint)}, not `{text}`"
    raise InputError(message)


def _readers(hint: Any) -> tuple[Callable[[str], object], ...]:  # noqa: ANN401
    """How a value of this type may be read, the strictest way first."""
    if typing.get_origin(hint) is Literal:
        choices = {str(choice): choice for choice in typing.get_args(hint)}
        return (choices.__getitem__,)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = sorted(typing.get_args(hint), key=lambda one: one is str)
        return tuple(reader for member in members for reader in _readers(member))
    known: dict[Any, tuple[Callable[[str], object], ...]] = {
        int: (int,),
        float: (float,),
        bool: (_bool,),
        str: (str,),
        type(None): (_none,),
    }
    return known.get(hint, (int, float, _bool, _none, str))


def _bool(text: str) -> bool:
    return _WORDS[text.lower()]


def _none(text: str) -> None:
    if text.lower() != "none":
        raise ValueError(text)


def _in_words(hint: Any) -> str:  # noqa: ANN401
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(str(choice) for choice in typing.get_args(hint))
    return f"{hint.__name__}" if isinstance(hint, type) else str(hint)


def _unknown(name: str, flag: str, parameters: Mapping[str, inspect.Parameter]) -> InputError:
    flags = [key.replace("_", "-") for key in parameters]
    close = difflib.get_close_matches(flag, flags, n=1)
    takes = ", ".join(f"--{one}" for one in flags) or "no arguments"
    hint = f"did you mean `--{close[0]}`?" if close else f"it takes {takes}"
    return InputError(f"`{name}` has no parameter for `--{flag}`", hint=hint)


def _check_complete(name: str, parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, object]) -> None:
    missing = [
        f"--{key.replace('_', '-')}"
        for key, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty and key not in arguments
    ]
    if missing:
        message = f"`{name}` needs {', '.join(missing)}"
        hint = "give them after `--`: `-- " + " ".join(f"{flag} VALUE" for flag in missing) + "`"
        raise InputError(message, hint=hint)
