"""The files of ``TORCH_TRACE``: a JSON object a line, and its payload in the lines behind it, each begun by a tab."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from foretrace.trace.compile_messages import Break, Recompile, break_of, guard_of
from foretrace.trace.schema import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foretrace.trace.compile_messages import Message

_HEAD = re.compile(r"(?:\[rank\d+\]:? ?)?[VIWEDC]\d{4} [\d:.]+ \d+ [^\]]*:\d+\] (?P<json>\{.*\})\s*$")
_SAMPLE_LINES = 20


def is_structured(text: str) -> bool:
    """Whether a log holds structured records: one among its first lines is enough."""
    return any(_HEAD.match(line) for line in text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES])


def structured_messages(text: str) -> Iterator[Message]:
    """Recompilations and graph breaks, in order; functions are named by the metrics of their compilation."""
    recompiles: list[tuple[str, Recompile]] = []
    names: dict[str, dict[str, Any]] = {}
    for record, payload in _records(text):
        artifact = record.get("artifact")
        kind = artifact.get("name") if isinstance(artifact, dict) else None
        compile_id = f"{record.get('frame_id')}/{record.get('frame_compile_id')}"
        if kind == "recompile_reasons":
            reason = _first_reason(payload)
            guard = guard_of(reason) if reason else None
            recompiles.append((compile_id, Recompile("", None, None, compile_id, guard)))
        elif kind == "dynamo_graph_break_reason":
            found = break_of(payload.split("\n"))
            yield found or Break(None, None, payload.partition("\n")[0] or None)
        elif isinstance(metrics := record.get("compilation_metrics"), dict):
            names[str(metrics.get("compile_id") or compile_id)] = metrics
    # a compilation that was given up has no metrics of its own; the frame's others name its function
    frames = {compile_id.partition("/")[0]: metrics for compile_id, metrics in names.items()}
    for compile_id, message in recompiles:
        yield _named(message, names.get(compile_id) or frames.get(compile_id.partition("/")[0], {}))


def _records(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    record: dict[str, Any] = {}
    payload: list[str] = []
    for line in text.split("\n"):
        if line.startswith("\t"):
            payload.append(line[1:])
        elif head := _HEAD.match(line):
            if record:
                yield record, "\n".join(payload)
            record, payload = _decoded(head["json"]), []
    if record:
        yield record, "\n".join(payload)


def _decoded(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except MALFORMED:
        return {}
    return found if isinstance(found, dict) else {}


def _first_reason(payload: str) -> str | None:
    """The reason of the newest compiled code: the first of a list, or the text itself."""
    try:
        reasons = msgspec.json.decode(payload)
    except MALFORMED:
        reasons = [payload]
    first = reasons[0] if isinstance(reasons, list) and reasons else reasons
    return first.partition("\n")[0] if isinstance(first, str) and first else None


def _named(message: Recompile, metrics: dict[str, Any]) -> Recompile:
    line = metrics.get("co_firstlineno")
    return Recompile(
        function=str(metrics.get("co_name") or f"frame {str(message.compile_id).partition('/')[0]}"),
        file=metrics.get("co_filename"),
        line=line if isinstance(line, int) else None,
        compile_id=message.compile_id,
        guard=message.guard,
    )
