"""Malformed JSON text to sound JSON text: one object at a time, in one pass, or all the texts of a piece at once.

What writers get wrong is in texts (backslashes, quotes, control characters, bytes that are no UTF-8), numbers (``nan``,
``N/A``), keys (a missing quote) and commas. A text ends at the first quote that is followed by what may follow it: in
an event by one of the event's own keys or the event's end, so that quotes inside a name do not end it.
"""

from __future__ import annotations

import math
import re

import msgspec

KEYS = rb"(?:ph|name|cat|pid|tid|ts|dur|args|id|s|bp|tts|tdur|cname|scope|sf|esf|id2|bind_id|flow_in|flow_out)"
"""Keys of an event in the Trace Event Format; an event begins with one of them."""

CONTROL, UTF8, BACKSLASHES, QUOTES = "control-characters", "invalid-utf8", "backslashes", "quotes"
NUMBERS, QUOTELESS_KEYS, COMMAS = "numbers", "keys", "commas"

_MAX_DEPTH = 64
_NEXT_KEY = rb'\s*+,\s*+"?' + KEYS + rb'"?\s*+:'
_AFTER_EVENT_TEXT = re.compile(_NEXT_KEY + rb"|\s*+,?+\s*+\}\s*+\Z")
_AFTER_ARGUMENT_TEXT = re.compile(
    rb'\s*+(?:,\s*+"[^"\\]{1,80}+"\s*+:|,?+\s*+\}\s*+(?:\}|,\s*+"?' + KEYS + rb'"?\s*+:))'
)
_AFTER_TEXT = re.compile(rb'\s*+(?:,\s*+"[^"\\]{1,80}+"\s*+:|,?+\s*+\})')
_AFTER_ITEM = re.compile(rb"\s*+[,\]]")
_SPACE = re.compile(rb"\s*+")
_KEY = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*+)"\s*+:\s*+')
_LOOSE_KEY = re.compile(rb'"?([^"\\{}\[\],:\x00-\x20]{1,80}+)"?\s*+:\s*+')
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?(?=[\s,}\]]|\Z)")
_WORD = re.compile(rb'[^\s,}\]\["{]++')
# a run without anything to mend, or one text with something to mend; an unclosed one reaches to the end
_SOUND_OR_TEXT = re.compile(rb'(?:[^"]++|"[^"\\\x00-\x1f]*+")++|"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_NO_NUMBER = rb"[-+]?(?:nan(?:\(ind\))?|inf(?:inity)?|n/a)(?=\s*+[,}\]])"
_HAS_NO_NUMBER = re.compile(_NO_NUMBER, re.IGNORECASE)
# a run of texts and of what begins no such word, the word itself, or one character
_REST_OR_NO_NUMBER = re.compile(
    rb'(?:[^"niNI+-]++|"(?:[^"\\]|\\.)*+(?:"|\Z))++|(' + _NO_NUMBER + rb")|.", re.DOTALL | re.IGNORECASE
)
_TO_MEND = re.compile(rb'["\\\x00-\x1f]')
_RAW_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|((?:u[0-9a-fA-F]{4})(?:\\u[0-9a-fA-F]{4})*))')
_MEANING = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class UnmendableError(ValueError):
    """The text has no reading as one JSON object."""


def mend_texts(piece: bytes, found: list[str]) -> bytes:
    """``piece`` with every text in it made sound JSON; ``found`` gets one entry for each text that was not.

    This assumes that texts end at the next unescaped quote; where they do not, the result does not parse either.
    """
    try:
        piece.decode()
    except UnicodeDecodeError:
        piece = piece.decode("utf-8", "replace").encode()
        found.append(UTF8)

    def mended(match: re.Match[bytes]) -> bytes:
        text = match.group()
        is_sound = not text.startswith(b'"') or _TO_MEND.search(text, 1, len(text) - 1) is None
        return text if is_sound or not text.endswith(b'"') else _mended_text(text[1:-1], text, found)

    return _SOUND_OR_TEXT.sub(mended, piece)


def mend_numbers(piece: bytes, found: list[str]) -> bytes:
    """``piece`` with ``nan``, ``inf`` and ``N/A`` outside of texts as ``null``; ``found`` gets an entry for each."""
    if _HAS_NO_NUMBER.search(piece) is None:
        return piece

    def mended(match: re.Match[bytes]) -> bytes:
        if match.group(1) is None:
            return match.group()
        found.append(NUMBERS)
        return b"null"

    return _REST_OR_NO_NUMBER.sub(mended, piece)


def mend_object(text: bytes, found: list[str], *, event: bool) -> bytes:
    """The JSON object in ``text``, rewritten; ``found`` gets one entry for each thing that was wrong.

    Args:
        text: One object from its brace on. An event ends where ``text`` ends; any other object may be cut short, and
            is then closed after its last complete pair.
        found: Collects what was mended.
        event: Whether the object is an event.

    Raises:
        UnmendableError: The text cannot be read as an object.
    """
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
        found.append(UTF8)
    mender = _Mender(text, found, event=event)
    try:
        end = mender.object(0, depth=1)
    except UnmendableError:
        if event or not mender.complete:
            raise
        return b"".join(mender.out[: mender.complete]) + b"}"
    if event and _SPACE.fullmatch(text, end) is None:
        raise UnmendableError
    return b"".join(mender.out)


class _Mender:
    """A recursive descent over ``text`` that writes sound JSON to ``out``."""

    def __init__(self, text: bytes, found: list[str], *, event: bool) -> None:
        self.text = text
        self.found = found
        self.event = event
        self.out: list[bytes] = []
        self.complete = 0
        """How many pieces of ``out`` end with a complete pair of the outermost object."""

    def object(self, at: int, depth: int) -> int:
        """Write the object whose brace is at ``at``; where it ends."""
        if self.text[at : at + 1] != b"{" or depth > _MAX_DEPTH:
            raise UnmendableError
        self.out.append(b"{")
        follow = _AFTER_TEXT
        if self.event and depth <= 2:  # noqa: PLR2004 - the event itself, and its arguments
            follow = _AFTER_EVENT_TEXT if depth == 1 else _AFTER_ARGUMENT_TEXT
        separator = b""
        at = self._space(at + 1)
        while self.text[at : at + 1] != b"}":
            key, at = self._key(at)
            self.out += (separator, key, b":")
            at = self._space(self._value(at, depth, follow))
            if depth == 1:
                self.complete = len(self.out)
            separator, at = self._separator(at, b"}")
        self.out.append(b"}")
        return at + 1

    def _list(self, at: int, depth: int) -> int:
        if depth > _MAX_DEPTH:
            raise UnmendableError
        self.out.append(b"[")
        separator = b""
        at = self._space(at + 1)
        while self.text[at : at + 1] != b"]":
            self.out.append(separator)
            at = self._space(self._value(at, depth, _AFTER_ITEM))
            separator, at = self._separator(at, b"]")
        self.out.append(b"]")
        return at + 1

    def _separator(self, at: int, closing: bytes) -> tuple[bytes, int]:
        here = self.text[at : at + 1]
        if here == b",":
            at = self._space(at + 1)
            if self.text[at : at + 1] == closing:
                self.found.append(COMMAS)
            return b",", at
        if here != closing:
            raise UnmendableError
        return b",", at

    def _key(self, at: int) -> tuple[bytes, int]:
        key = _KEY.match(self.text, at)
        if key is None:
            key = _LOOSE_KEY.match(self.text, at)
            if key is None:
                raise UnmendableError
            self.found.append(QUOTELESS_KEYS)
        return b'"' + key.group(1) + b'"', key.end()

    def _value(self, at: int, depth: int, follow: re.Pattern[bytes]) -> int:
        first = self.text[at : at + 1]
        if first == b'"':
            return self._text_at(at, follow)
        if first == b"{":
            return self.object(at, depth + 1)
        if first == b"[":
            return self._list(at, depth + 1)
        number = _NUMBER.match(self.text, at)
        if number is not None:
            self.out.append(number.group())
            return number.end()
        word = _WORD.match(self.text, at)
        if word is None:
            raise UnmendableError
        self.out.append(self._word(word.group()))
        return word.end()

    def _word(self, word: bytes) -> bytes:
        if word in (b"true", b"false", b"null"):
            return word
        self.found.append(NUMBERS)
        try:
            value = float(word)
        except ValueError:
            return b"null"
        return msgspec.json.encode(value) if math.isfinite(value) else b"null"

    def _text_at(self, at: int, follow: re.Pattern[bytes]) -> int:
        """Write the text whose opening quote is at ``at``; where it ends."""
        text, quote = self.text, at
        while True:
            quote = text.find(b'"', quote + 1)
            if quote < 0:
                raise UnmendableError
            escaped = follow in (_AFTER_ITEM, _AFTER_TEXT) and _is_escaped(text, quote)
            if not escaped and follow.match(text, quote + 1):
                break
        inside = text[at + 1 : quote]
        literal = text[at : quote + 1]
        self.out.append(literal if _TO_MEND.search(inside) is None else _mended_text(inside, literal, self.found))
        return quote + 1

    def _space(self, at: int) -> int:
        space = _SPACE.match(self.text, at)
        return space.end() if space else at


def _is_escaped(text: bytes, quote: int) -> bool:
    before = text[max(0, quote - 32) : quote]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _mended_text(inside: bytes, literal: bytes, found: list[str]) -> bytes:
    """The JSON literal of a text that holds backslashes, quotes or control characters.

    Backslashes are escapes when all of them are; otherwise the writer escaped nothing and they are meant as they stand.
    """
    text = inside.decode("utf-8", "replace")
    without = _ESCAPE.sub("", text)
    if "\\" in without:
        found.append(BACKSLASHES)
        text = text.replace('\\"', '"')
    else:
        text = _ESCAPE.sub(_unescaped, text)
    if '"' in without:
        found.append(QUOTES)
    if _RAW_CONTROL.search(without):
        found.append(CONTROL)
    sound = without.isascii() and not ("\\" in without or '"' in without or _RAW_CONTROL.search(without))
    return literal if sound and b"\\u" not in inside else msgspec.json.encode(text)


def _unescaped(match: re.Match[str]) -> str:
    short, units = match.groups()
    if short:
        return _MEANING[short]
    values = b"".join(int(unit, 16).to_bytes(2, "little") for unit in units.replace("\\", "")[1:].split("u"))
    return values.decode("utf-16-le", "replace")  # pairs become one character, half pairs U+FFFD
