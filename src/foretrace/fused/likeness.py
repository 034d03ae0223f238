"""Which modules look alike, so that one of a model's layers can stand for the others until they are looked at."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Hashable

    from torch import Tensor

_ASKED_APART = frozenset({"_parameters", "_buffers", "_modules", "training"})
_BY_VALUE = frozenset({bool, int, float, str, type(None), torch.dtype})
_CONTAINERS = frozenset({dict, list, set, OrderedDict})


def likeness(module: nn.Module) -> Hashable:
    """Equal only for modules that look as if they differed in their weights' values alone, as a model's layers do.

    Compared are classes, children, shapes and what is shared among them, and attributes: numbers, words, tuples, empty
    containers and partial functions by their values, anything else by being one object.
    """
    return _like_module(module, {})


def _like_module(module: nn.Module, seen: dict[int, int]) -> Hashable:
    if id(module) in seen:
        return seen[id(module)]
    seen[id(module)] = len(seen)
    if any(getattr(kind, "__slots__", ()) for kind in type(module).__mro__):
        return id(module)  # attributes that nothing lists
    return (
        type(module),
        tuple((name, _like_value(value)) for name, value in vars(module).items() if name not in _ASKED_APART),
        tuple((name, _like_parameter(p, seen)) for name, p in module._parameters.items()),  # noqa: SLF001 - with None
        tuple((name, id(buffer)) for name, buffer in module._buffers.items()),  # noqa: SLF001 - as above
        tuple((name, _like_child(m, seen)) for name, m in module._modules.items()),  # noqa: SLF001 - as above
    )


def _like_child(module: nn.Module | None, seen: dict[int, int]) -> Hashable:
    return None if module is None else _like_module(module, seen)


def _like_parameter(parameter: Tensor | None, seen: dict[int, int]) -> Hashable:
    if parameter is None or id(parameter) in seen:
        return None if parameter is None else seen[id(parameter)]
    seen[id(parameter)] = len(seen)
    return type(parameter), parameter.shape, parameter.dtype


def _like_value(value: Any) -> Hashable:  # noqa: ANN401 - any attribute
    kind = type(value)
    if kind in _BY_VALUE:
        return kind, repr(value)
    if kind is tuple:
        return tuple(map(_like_value, value))
    if kind in _CONTAINERS and not value:
        return (kind,)
    if isinstance(value, partial):
        return partial, _like_value(value.func), _like_value(value.args), _like_value(tuple(value.keywords.items()))
    return id(value)
