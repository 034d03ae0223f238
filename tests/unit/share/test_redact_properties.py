"""What holds of redaction whatever the text or tree."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from foretrace.share.names import HOST, USER, Names
from foretrace.share.redact import Redactor

TOKENS = ("hf_" + "a1B2" * 6, "AKIA" + "ABCDEFGH12345678", "xoxp-" + "123456789012-abc", "glpat-" + "a1B2" * 5)
LEFT, RIGHT = " \"'=:/\\,;@[]{}<>()|?&\n", " \"':,;)]}>&\n"
PARTS = (
    "/home/ada/x.py", "C:\\Users\\ada\\x", "token", "password", "=", ": ", " ", "--", "/", "\\", "'", '"', "@",
    "://", "gpu-node-7", "ada", ".local", "ip-10-0-0-1", "10.0.0.7", "Bearer ", "env", "x", "7", "[", "]", "\n",
)  # fmt: skip
TEXTS = st.one_of(st.lists(st.sampled_from(PARTS), max_size=8).map("".join), st.text(max_size=30))
KEYS = st.one_of(st.sampled_from(("env", "host", "user", "api_key", "name", "Input Dims", "ts", "cat")), TEXTS)
NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
TREES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def redactor() -> Redactor:
    """One that knows a host and a user."""
    names = Names()
    names.add("gpu-node-7", HOST)
    names.add("ada", USER)
    return Redactor(names)


@settings(max_examples=300)
@given(
    TEXTS,
    st.sampled_from(" \"'=:/\\,;@[]{}<>()|?&\n"),
    st.sampled_from(TOKENS),
    st.sampled_from(" \"':,;)]}>&\n"),
    TEXTS,
)
def test_no_surroundings_save_a_token(before: str, left: str, token: str, right: str, after: str) -> None:
    """Between any delimiters and in any text, a token is gone."""
    assert token not in redactor().text(f"{before}{left}{token}{right}{after}")


@settings(max_examples=300)
@given(TREES)
def test_numbers_and_shape_of_a_tree_are_kept(tree: Any) -> None:
    """Every number, list and object is where it was; only texts differ."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return [bare(item) for item in value.values()]
        if isinstance(value, list):
            return [bare(item) for item in value]
        return "" if isinstance(value, str) else value

    done = redactor().tree(tree)
    if _distinct_keys(tree):
        assert bare(done) == bare(tree)


def _distinct_keys(tree: Any) -> bool:
    """Whether no two keys of one object become the same."""
    if isinstance(tree, dict):
        return len({redactor().text(key) for key in tree}) == len(tree) and all(map(_distinct_keys, tree.values()))
    return not isinstance(tree, list) or all(map(_distinct_keys, tree))


@settings(max_examples=200)
@given(
    st.lists(st.dictionaries(KEYS, st.one_of(TEXTS, NUMBERS, st.lists(NUMBERS)), max_size=5), min_size=1, max_size=4)
)
def test_a_piece_of_a_file_is_its_tree(events: list[dict[str, Any]]) -> None:
    """The fast way over the bytes of a file gives what the tree gives, and keeps the bytes where nothing is private."""
    raw = msgspec.json.encode(events)
    piece = redactor().piece(raw[1:-1])
    tree = redactor().tree(events)
    assert msgspec.json.decode(b"[" + piece + b"]") == msgspec.json.decode(msgspec.json.encode(tree))
    if tree == events and not any(isinstance(value, float) for event in events for value in event.values()):
        assert piece == raw[1:-1]
