"""foretrace: guess first, then look, for PyTorch performance.

>>> import foretrace
>>> run = foretrace.read("trace.json.gz")  # doctest: +SKIP

The names below are loaded when they are first used, so that ``import foretrace`` is quick and needs no torch.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # as type checkers take it; importing typing for it would be half the time of this import
if TYPE_CHECKING:
    from typing import Any

    from foretrace.capture import profile
    from foretrace.errors import ForetraceError
    from foretrace.guess.api import guess
    from foretrace.names import Identity, decode
    from foretrace.notebook import to_frame
    from foretrace.readings import Answer, ask
    from foretrace.render.words import in_words
    from foretrace.run import Run, read

__version__ = "0.1.0"

_HOMES = {
    "Answer": "foretrace.readings",
    "ForetraceError": "foretrace.errors",
    "Identity": "foretrace.names",
    "Run": "foretrace.run",
    "ask": "foretrace.readings",
    "decode": "foretrace.names",
    "diff": "foretrace.diff",
    "fused": "foretrace.fused",
    "guess": "foretrace.guess",
    "in_words": "foretrace.render.words",
    "profile": "foretrace.capture",
    "read": "foretrace.run",
    "to_frame": "foretrace.notebook",
}

__all__ = [
    "Answer",
    "ForetraceError",
    "Identity",
    "Run",
    "__version__",
    "ask",
    "decode",
    "diff",
    "guess",
    "in_words",
    "profile",
    "read",
    "to_frame",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever lives there
    if name not in _HOMES:
        raise AttributeError(f"module 'foretrace' has no attribute '{name}'")
    home = importlib.import_module(_HOMES[name])
    # a package of that name has bound itself by now; it can be called, and its modules are found below it
    value = globals()[name] = globals().get(name) or getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "IPython" in sys.modules:  # then results show themselves; not named above, as no room may depend on it
    importlib.import_module("foretrace.notebook").register()
