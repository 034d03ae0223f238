"""Predict the kernels of a module from its code and shapes alone.

``foretrace.guess`` is this package and the function at once: ``foretrace.guess(module, x, on="h200")``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from foretrace.guess.api import guess, guess_built

if TYPE_CHECKING:
    from foretrace.verdict import Guess

__all__ = ["guess", "guess_built"]


class _Callable(ModuleType):
    def __call__(self, module: Any, /, *args: Any, **kwargs: Any) -> Guess:  # noqa: ANN401 - as in `guess`
        return guess(module, *args, **kwargs)


# a package and a function may share a name only if the package can be called
sys.modules[__name__].__class__ = _Callable
