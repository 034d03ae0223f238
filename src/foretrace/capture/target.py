"""What to profile: ``path/to/file.py:factory``, ``package.module:factory``, or a script as it is."""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import importlib.util
import inspect
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.capture.arguments import parse_arguments
from foretrace.errors import ForetraceError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

_WANTS_A_GPU = re.compile(r"not compiled with CUDA|no NVIDIA driver|No (CUDA|HIP) GPUs")
_NAMED = 3
_FORM = "write `path/to/file.py:factory` or `package.module:factory`"


@dataclass(frozen=True, slots=True)
class Workload:
    """What a factory returns: something to call, and what to call it with.

    Attributes:
        call: A module or any other callable.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """

    call: Callable[..., object]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A factory and the arguments that make it build a workload.

    Attributes:
        text: The target as it was asked for.
        factory: Returns ``(module_or_callable, args_tuple[, kwargs_dict])``.
        arguments: Keyword arguments of the factory.
        source: The file or directory it comes from.
    """

    text: str
    factory: Callable[..., object]
    arguments: Mapping[str, object] = field(default_factory=dict)
    source: Path = field(default_factory=Path)

    @property
    def name(self) -> str:
        """The factory's own name: ``geglu`` for ``mlp.py:geglu``."""
        return self.text.rpartition(":")[2].rpartition(".")[2]

    def build(self) -> Workload:
        """Call the factory once; each call gives modules of its own.

        Raises:
            InputError: The factory raises, or returns something else than a workload.
        """
        try:
            built = self.factory(**self.arguments)
        except ForetraceError:
            raise
        except (Exception, SystemExit) as error:
            message = f"`{self.text}` raised {in_one_line(error)}"
            hint = "call the factory by itself to see where"
            if _WANTS_A_GPU.search(str(error)):
                guess = f"`foretrace guess {shlex.quote(self.text)} --on h200`"
                hint = f"without a GPU let the factory choose its device, or {guess}"
            raise InputError(message, hint=hint) from error
        return _workload(self.text, built)


@dataclass(frozen=True, slots=True)
class Script:
    """A Python file that is run as it is.

    Attributes:
        path: The file.
        argv: Its arguments, ``sys.argv[1:]``.
    """

    path: Path
    argv: tuple[str, ...] = ()

    @property
    def factory_hint(self) -> str | None:
        """Which of its functions may have been meant for a factory, found without running it; ``None`` without any."""
        try:
            code = ast.parse(self.path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None
        names = [one.name for one in code.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
        targets = ", ".join(f"`{self.path}:{name}`" for name in names[:_NAMED])
        if not names:
            return None
        return f"did you mean {targets}?" if len(names) == 1 else f"name one of its functions: {targets}"


def parse_target(text: str, arguments: Sequence[str] = ()) -> Target | Script:
    """Find what ``text`` names and read ``arguments`` (what follows ``--``) for it.

    The directory of a file, or the current one for a module, is put first on ``sys.path`` and stays there:
    forwards import, too.

    Raises:
        InputError: No such file, module or factory; its import fails; or the arguments do not fit.
    """
    place, colon, attribute = text.rpartition(":")
    if not colon or "/" in attribute or "\\" in attribute:  # C:\model.py has a colon of its own
        place, attribute = text, ""
    is_file = place.endswith(".py") or Path(place).is_file()
    if is_file and not Path(place).is_file():
        message = f"`{place}` does not exist"
        raise InputError(message, hint=_FORM)
    if is_file and not attribute:
        return Script(Path(place), tuple(arguments))
    if not attribute:
        message = f"`{text}` names no factory"
        raise InputError(message, hint=_FORM)
    module = _imported(place, functools.partial(_load_file if is_file else _load_module, place))
    factory = _factory(module, place, attribute)
    source = Path(module.__file__).parent if module.__file__ else Path()
    return Target(text, factory, parse_arguments(arguments, factory), source)


def in_one_line(error: BaseException) -> str:
    """``ValueError: the first line of its text``."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _imported(place: str, load: Callable[[], ModuleType]) -> ModuleType:
    arguments, sys.argv = sys.argv, [place]  # a script that reads its own must not read foretrace's
    try:
        return load()
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            message = f"no module `{place}` can be found"
            hint = f"{_FORM}; modules are looked up from the current directory"
            raise InputError(message, hint=hint) from error
        message = f"`{place}` imports `{error.name}`, which is not installed"
        raise InputError(message, hint="install it where foretrace runs") from error
    except ForetraceError:
        raise
    except (Exception, SystemExit) as error:
        message = f"`{place}` cannot be imported: {in_one_line(error)}"
        raise InputError(message, hint="import it by itself to see where") from error
    finally:
        sys.argv = arguments


def _load_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    _look_in(path.parent)
    # a name of its own: `random.py` must not stand in for the standard library's
    name = f"foretrace_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        message = f"`{place}` is no Python file"
        raise InputError(message, hint=_FORM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    spec.loader.exec_module(module)
    return module


def _load_module(place: str) -> ModuleType:
    _look_in(Path.cwd())
    return importlib.import_module(place)


def _look_in(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _factory(module: ModuleType, place: str, attribute: str) -> Callable[..., object]:
    try:
        found = functools.reduce(getattr, attribute.split("."), module)
    except AttributeError as error:
        close = difflib.get_close_matches(attribute, _own_functions(module), n=1)
        named = ", ".join(f"`{name}`" for name in _own_functions(module)) or "no function"
        hint = f"did you mean `{place}:{close[0]}`?" if close else f"it defines {named}"
        message = f"`{place}` has no `{attribute}`"
        raise InputError(message, hint=hint) from error
    if not callable(found):
        message = f"`{place}:{attribute}` cannot be called: it is of type {type(found).__name__}"
        raise InputError(message, hint="a factory is a function that returns `(module, args)`")
    factory: Callable[..., object] = found
    return factory


def _own_functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _workload(text: str, built: object) -> Workload:
    match built:
        case (call, tuple() | list() as args) if callable(call):
            return Workload(call, tuple(args))
        case (call, tuple() | list() as args, dict() as kwargs) if callable(call):
            return Workload(call, tuple(args), kwargs)
    if isinstance(built, tuple):
        returned = "(" + ", ".join(type(one).__name__ for one in built) + ")"
    else:
        returned = type(built).__name__
    message = f"`{text}` returned {returned}, not `(module_or_callable, args_tuple[, kwargs_dict])`"
    raise InputError(message, hint="end the factory with `return model, (x,)`")
