"""One event whose JSON is sound but whose types are not what Kineto writes: numbers as text, floats for ids.

Several converters and vendors' profilers write such events. What can be read as the wanted type is; the rest becomes
unknown.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from foretrace.trace.schema import NO_TEXT, Args, Event

AS_TEXT = "string-numbers"
WRONG_TYPE = "wrong-types"


class _Loose(Struct, gc=False):
    ph: Raw = NO_TEXT
    name: Raw = NO_TEXT
    cat: Raw = NO_TEXT
    pid: Raw = NO_TEXT
    tid: Raw = NO_TEXT
    ts: Raw = NO_TEXT
    dur: Raw = NO_TEXT
    id: Raw = NO_TEXT
    args: Raw = NO_TEXT


_decode_loose = msgspec.json.Decoder(_Loose).decode
_decode_args = msgspec.json.Decoder(dict[str, Raw]).decode
_ARGUMENTS = {
    field.encode_name: (field.name, str if "str" in str(field.type) else int)
    for field in msgspec.structs.fields(Args)
    if field.type is not Raw
}
_LISTS = {field.encode_name: field.name for field in msgspec.structs.fields(Args) if field.type is Raw}


def convert(text: bytes, found: set[str]) -> Event | None:
    """The event in ``text``, or ``None`` when it has no phase; what had to be converted is added to ``found``.

    Raises:
        msgspec.DecodeError: The text is no JSON object. Also UnicodeDecodeError and RecursionError: see `MALFORMED`.
    """
    loose = _decode_loose(text)
    phase = _value(loose.ph)
    if not isinstance(phase, str) or not phase:
        return None
    return Event(
        ph=phase,
        name=_text(loose.name, found),
        cat=_text(loose.cat, found),
        pid=_identifier(loose.pid, found),
        tid=_identifier(loose.tid, found),
        ts=_time(loose.ts, found),
        dur=_duration(loose.dur, found),
        id=_identifier(loose.id, found) if bytes(loose.id) else None,
        args=_arguments(loose.args, found),
    )


def _value(raw: Raw) -> Any:  # noqa: ANN401 - the JSON edge
    return msgspec.json.decode(raw) if bytes(raw) else None


def _text(raw: Raw, found: set[str]) -> str:
    value = _value(raw)
    if value is None or isinstance(value, str):
        return value or ""
    found.add(WRONG_TYPE)
    return bytes(raw).decode("utf-8", "replace")


def _identifier(raw: Raw, found: set[str]) -> int | str:
    value = _value(raw)
    if isinstance(value, (int, str)):  # a bool is an int, and as good a name as any
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None:
        return 0
    found.add(WRONG_TYPE)
    return bytes(raw).decode("utf-8", "replace")


def _time(raw: Raw, found: set[str]) -> Raw:
    if bytes(raw).startswith(b'"'):
        found.add(AS_TEXT)
    return raw.copy()


def _duration(raw: Raw, found: set[str]) -> float | None:
    value = _number(_value(raw), found)
    return None if value is None else float(value)


def _arguments(raw: Raw, found: set[str]) -> Args | None:
    if not bytes(raw) or bytes(raw) == b"null":
        return None
    if not bytes(raw).startswith(b"{"):
        found.add(WRONG_TYPE)
        return None
    given = _decode_args(raw)
    known: dict[str, Any] = {_LISTS[key]: given[key].copy() for key in _LISTS.keys() & given.keys()}
    for key in _ARGUMENTS.keys() & given.keys():
        attribute, kind = _ARGUMENTS[key]
        known[attribute] = _text(given[key], found) if kind is str else _integer(_value(given[key]), found)
    return Args(**known)


def _integer(value: Any, found: set[str]) -> int | None:  # noqa: ANN401 - the JSON edge
    number = _number(value, found)
    if number is None or number == int(number):
        return None if number is None else int(number)
    found.add(WRONG_TYPE)
    return None


def _number(value: Any, found: set[str]) -> int | float | None:  # noqa: ANN401 - the JSON edge
    if isinstance(value, str):
        try:
            value = int(value) if value.strip().lstrip("-").isdecimal() else float(value)
            found.add(AS_TEXT)
        except ValueError:
            value = value or None  # an empty text is a usual way to write "none"
    finite = isinstance(value, (int, float)) and abs(value) < 1 << 65  # infinity and nan are not
    if value is not None and not finite:
        found.add(WRONG_TYPE)
    return value if finite else None
