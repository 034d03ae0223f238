"""A kernel's name as a C++ symbol: demangled, and taken apart into its path and template arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from itanium_demangler import parse as parse_mangled

# The demangler keeps its substitutions in a list it searches: 2 kB take 10 ms, and no library's names are longer.
_LONGEST_DEMANGLED = 2_000
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::|_GLOBAL__N_[A-Za-z0-9_]*::", re.ASCII)
# Nsight's demangler writes (int)4, (bool)1 and [lambda(float) (instance 1)] for 4, true and {lambda(float)#1}
_BOOL = re.compile(r"\(bool\)([01])", re.ASCII)
_LITERAL_CAST = re.compile(
    r"\((?:int|unsigned int|long|unsigned long|long long|unsigned long long)\)(?=-?[0-9])", re.ASCII
)
_LAMBDA = re.compile(r"\[lambda\(([^()\[\]{}]{0,160})\) \(instance ([0-9]{1,3})\)\]", re.ASCII)
# a length before its identifier; not a number in a literal (Li4E), a back-reference (S1_) or a parameter (T1_)
_MANGLED_WORD = re.compile(r"(?<![0-9ST])(?<!L[a-z])[1-9][0-9]{0,2}", re.ASCII)
_LENGTH = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)  # right behind an identifier, which may end in any of those
_MARK = re.compile(r"[<>(){},\[\] ]", re.ASCII)
_OPEN, _CLOSE = frozenset("<({["), frozenset(">)}]")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name in its parts.

    Args:
        name: As the trace spells it.
        text: Demangled where it was mangled, without anonymous namespaces.
        path: The function's qualified name, without return type and template arguments (``at::native::f``).
        args: Its template arguments, outermost level only.
    """

    name: str
    text: str
    path: str
    args: tuple[str, ...]

    @property
    def base(self) -> str:
        """The last part of the path: the function's own name."""
        return self.path.rsplit("::", 1)[-1]

    @property
    def scope(self) -> str:
        """The path without the function's own name, ``""`` at global scope."""
        return self.path.rpartition("::")[0]


def read_symbol(name: str) -> Symbol:
    """Take a kernel name apart; a name that is no C++ symbol is its own path."""
    code = name.removesuffix(" [clone .kd]").removesuffix(".kd")  # an AMD kernel's descriptor
    text = _demangle(code) if code.startswith("_Z") else code
    text = _one_spelling(text).removesuffix("...")  # tables cut long names short
    path, args = _split(text)
    return Symbol(name, text, path, args)


def _demangle(name: str) -> str:
    if len(name) <= _LONGEST_DEMANGLED:
        try:
            tree = parse_mangled(name)
        except (NotImplementedError, ValueError, IndexError, KeyError, AttributeError, TypeError, RecursionError):
            tree = None
        if tree is not None:
            return str(tree)
    return _mangled_words(name)


def _one_spelling(text: str) -> str:
    """Literals, lambdas and anonymous namespaces as GNU's demangler spells them, whichever wrote them."""
    text = _BOOL.sub(lambda found: "true" if found[1] == "1" else "false", _ANONYMOUS.sub("", text))
    return _LAMBDA.sub(r"{lambda(\1)#\2}", _LITERAL_CAST.sub("", text)).replace("operator ()", "operator()")


def _mangled_words(name: str) -> str:
    """The identifiers in a mangled name that has lambdas, which the demangler cannot read.

    ``_ZN2at6native1fIZ…15cos_kernel_cuda…`` → ``at::native::f<cos_kernel_cuda …>``: enough to know the kernel, and
    no types, because back-references are not followed. A name in which nothing can be read is kept.
    """
    path: list[str] = []
    inner: list[str] = []
    at = 3 if name.startswith("_ZN") else 2
    nested = True
    while found := _LENGTH.match(name, at) or _MANGLED_WORD.search(name, at):
        end = found.end() + int(found[0])
        nested = nested and found.start() == at
        word = name[found.end() : end]
        is_lambda = word.startswith("_") and name[found.start() - 1] == "E"  # UlvE1_
        if len(word) == int(found[0]) and word.isidentifier() and not is_lambda:
            (path if nested else inner).append(word)
            at = end
        else:
            at = found.end()
    return f"{'::'.join(path)}<{' '.join(inner)}>" if path else name


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """Path and outermost template arguments; reads no further than the parameter list."""
    pieces: list[str] = []
    args: list[str] = []
    depth = start = arg_start = 0
    end = len(text)
    for mark in _MARK.finditer(text):
        char, here = mark[0], mark.start()
        if char in _OPEN:
            if depth == 0:
                if char == "(" and (pieces or here > start):
                    end = here
                    break
                pieces.append(text[start:here])
                args, arg_start = [], here + 1
            depth += 1
        elif char in _CLOSE:
            depth = max(depth - 1, 0)
            if depth == 0:
                args.append(text[arg_start:here].strip())
                start = here + 1
        elif char == "," and depth == 1:
            args.append(text[arg_start:here].strip())
            arg_start = here + 1
        elif char == " " and depth == 0:  # what came before was a return type
            pieces, args, start = [], [], here + 1
    if depth:  # cut short inside the template
        args.append(text[arg_start:].strip())
        start = end
    pieces.append(text[start:end])
    return "".join(pieces), tuple(arg for arg in args if arg)
