"""Copies and sets as the profiler itself names them: ``Memcpy HtoD (Pageable -> Device)``, ``Memset (Device)``.

AMD's runtime does the same with two kernels of its own, ``__amd_rocclr_copyBuffer`` and ``__amd_rocclr_fillBuffer``
(each with a suffix).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foretrace.names.identity import Identity

if TYPE_CHECKING:
    from foretrace.names.symbol import Symbol

_COPY = re.compile(
    r"Memcpy (?P<way>[HDAPU]to[HDAPU]|[A-Za-z]{1,16}) ?(?:\((?P<from>\w+) ?-> ?(?P<to>\w+)\))?", re.ASCII
)
_SET = re.compile(r"Memset (?:\((?P<where>\w+)\)|[A-Za-z]{1,16})", re.ASCII)
_ROCM = re.compile(r"__amd_rocclr_(copy|fill)Buffer\w*", re.ASCII)


def parse(symbol: Symbol) -> Identity | None:
    """Decode a copy's or a set's name, or ``None``."""
    name = symbol.name
    if found := _COPY.fullmatch(name):
        ends = f": from {found['from'].lower()} to {found['to'].lower()} memory" if found["from"] else ""
        return Identity(
            name, family="memcpy", op_class="copy", in_words=f"memcpy {found['way']}{ends}{_pageable(name)}"
        )
    if found := _SET.fullmatch(name):
        where = f": writes one value over {found['where'].lower()} memory" if found["where"] else ""
        return Identity(name, family="memset", op_class="fill", in_words=f"memset{where}")
    if found := _ROCM.fullmatch(symbol.path):
        op_class, what = ("copy", "memcpy") if found[1] == "copy" else ("fill", "memset")
        words = f"{what} as a kernel: AMD's runtime copies and fills with kernels of its own"
        return Identity(name, family="rocclr", library="ROCm runtime", op_class=op_class, in_words=words)
    return None


def _pageable(name: str) -> str:
    return "; pageable host memory, so the copy is staged and the CPU waits" if "Pageable" in name else ""
