"""A guess survives its file, and a file with a mistake is refused with the place of the mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretrace.errors import InputError
from foretrace.verdict import Guess, GuessedKernel, from_toml, read_guess, to_toml

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_SIZES = st.lists(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(
    tuple
)
_KERNELS = st.builds(
    GuessedKernel,
    op_class=st.sampled_from(["gemm", "gemm-helper", "pointwise", "other", "unknown"]),
    op=st.none() | _TEXT,
    shapes=st.none() | _SIZES,
    flops=st.none() | st.integers(0, 1 << 60),
    fused_ops=st.none() | st.lists(_TEXT, min_size=1, max_size=3).map(tuple),
    source=st.none() | _TEXT,
    phase=st.sampled_from(["forward", "backward", "optimizer"]),
)


@given(st.lists(_KERNELS, max_size=3), st.none() | _TEXT, st.none() | st.integers(0, 9), st.lists(_TEXT).map(tuple))
def test_the_file_gives_the_guess_back(
    kernels: list[GuessedKernel], target: str | None, graphs: int | None, notes: tuple[str, ...]
) -> None:
    """Whatever a guess holds (any text, sizes, absent values) is read back equal."""
    guess = Guess(kernels=tuple(kernels), target=target, graphs=graphs, notes=notes)
    assert from_toml(to_toml(guess)) == guess


def test_a_hand_written_file_needs_only_classes() -> None:
    """What a person leaves out is left open, not taken as zero."""
    guess = from_toml('[[kernel]]\nop_class = "gemm"\nfrom = "head"\n')
    assert guess.kernels == (GuessedKernel(op_class="gemm", source="head"),)
    assert guess.graphs is None
    assert guess.kernels[0].floor_ns is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("kernel = [", "the guess is not TOML", "--write"),
        ('schema = "other/9"', "schema `other/9`", "anew"),
        ("kernel = 3", "`kernel` is no list of tables", "[[kernel]]"),
        ('[[kernel]]\nop_clas = "gemm"', "kernel 1 has an unknown key `op_clas`", "did you mean `op_class`?"),
        ("[[kernel]]\nop_class = 7", "kernel 1: Expected `str`, got `int`", "--write"),
        ('[[kernel]]\nop = "aten::mm"', "missing required field `op_class`", "--write"),
        ('kernel = []\ngraphs = "one"', "Expected `int | null`", "--write"),
        ("kernel = []\ncolour = 1", "unknown key `colour`", "keys are"),
        ("", "the guess lists no kernel", "kernel = []"),
        ('target = "mlp"\ngraphs = 1', "the guess lists no kernel", "kernel = []"),
        ('[[kernel]]\nop_class = "gemn"', "kernel 1: no class of kernels `gemn`", "did you mean `gemm`?"),
        ('[[kernel]]\nop_class = "zzz"', "kernel 1: no class of kernels `zzz`", "classes are gemm, conv"),
        ('[[kernel]]\nop_class = "gemm"\nflops = -1', "kernel 1: `flops` is -1", "correct it"),
        ("kernel = []\ngraphs = -5", "`graphs` is -5", "correct it"),
        ('kernel = []\nvariant = "compiled"', "no variant `compiled`", "eager, compile"),
    ],
)
def test_a_mistake_is_named(text: str, message: str, hint: str) -> None:
    """The error says which kernel and key is wrong, and the hint what to do."""
    with pytest.raises(InputError) as caught:
        from_toml(text)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_no_kernel_is_said_explicitly() -> None:
    """A guess that nothing runs writes so and is read back; a file cut off before its kernels is not taken for one."""
    text = to_toml(Guess(kernels=(), target="views"))
    assert "\nkernel = []\n" in text
    assert from_toml(text).kernels == ()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The path is in the message."""
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        read_guess(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text in UTF-8"):
        read_guess(tmp_path / "binary.toml")
