"""C++ names taken apart."""

from __future__ import annotations

import pytest

from foretrace.names.symbol import read_symbol


@pytest.mark.parametrize(
    ("name", "path", "args"),
    [
        ("plain_kernel", "plain_kernel", ()),
        ("void f<4, a::B<float, 2> >(int, a::B<float, 2>)", "f", ("4", "a::B<float, 2>")),
        ("void at::native::(anonymous namespace)::f<int>(int)", "at::native::f", ("int",)),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(x)",
            "internal::gemvx::kernel",
            ("int", "float"),
        ),
        (
            "void f<g(int, long)::{lambda()#1}::operator()() const::{lambda(float)#1}, h>(x)",
            "f",
            ("g(int, long)::{lambda()#1}::operator()() const::{lambda(float)#1}", "h"),
        ),
        ("void N<int>::f<float>(x)", "N::f", ("float",)),
        ("unsigned int f(int)", "f", ()),
        ("void f<4, cut::sho", "f", ("4", "cut::sho")),
        ("_ZN2at6native1fILi4EfEEvi", "at::native::f", ("4", "float")),
        ("_ZN2at6native1fILi4", "at::native::f", ()),  # cut short
        ("void f<a, b...", "f", ("a", "b")),
        ("_ZQ", "_ZQ", ()),
        # as Nsight spells literals, lambdas and anonymous namespaces
        ("void a::<unnamed>::f<(int)4, (bool)1, (unsigned long)2>(T1 *)", "a::f", ("4", "true", "2")),
        (
            "void f<g(a::B &)::[lambda() (instance 3)]::operator ()() const::[lambda(float) (instance 1)]>(T3)",
            "f",
            ("g(a::B &)::{lambda()#3}::operator()() const::{lambda(float)#1}",),
        ),
        # an identifier that ends in a digit, before the next one's length, in a name too long for the demangler
        ("_ZN2ck12_GLOBAL__N_13runI1x", "ck::run", ("x",)),
        # AMD's kernel descriptors
        ("plain_kernel.kd", "plain_kernel", ()),
        ("aiter::plain_kernel [clone .kd]", "aiter::plain_kernel", ()),
        ("_ZN2at6native1fILi4EfEEvi.kd", "at::native::f", ("4", "float")),
    ],
)
def test_parts(name: str, path: str, args: tuple[str, ...]) -> None:
    """Return types and parameters go, the qualified path and the outermost template arguments stay."""
    symbol = read_symbol(name)
    assert (symbol.path, symbol.args) == (path, args)


def test_scope_and_base() -> None:
    """The path ends in the function's own name."""
    symbol = read_symbol("void at::native::f<int>(int)")
    assert (symbol.scope, symbol.base) == ("at::native", "f")
    assert (read_symbol("f").scope, read_symbol("f").base) == ("", "f")
