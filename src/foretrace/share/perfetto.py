"""Links into Perfetto's UI that open on a step or a kernel.

Parameters are those of Perfetto's "Deep linking to the Perfetto UI": ``url`` is fetched by the browser, ``visStart``
and ``visEnd`` bound what is shown, ``ts`` and ``dur`` select the slice with these times, ``query`` runs SQL. All times
are nanoseconds on the file's own clock: what ``ts`` says, without ``baseTimeNanoseconds``, which Perfetto does not add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import numpy as np

from foretrace.errors import InputError

if TYPE_CHECKING:
    from foretrace.run import Run

PERFETTO = "https://ui.perfetto.dev"

_AROUND_STEP, _AROUND_KERNEL = 0.05, 4.0
"""What is shown on each side, in lengths of what is focused: a step fills the page, a kernel has neighbours."""
_LEAST_AROUND_NS = 1_000
_LISTED = 5
_QUERY = "select id, ts, dur, name from slice where name = '{}' order by dur desc"


@dataclass(frozen=True, slots=True)
class Focus:
    """A slice to open on.

    Attributes:
        what: ``ProfilerStep#3``, or the kernel's name.
        ts_ns, dur_ns: Its times on the file's clock.
        around_ns: How much is shown on each side of it.
        query: SQL to run on opening, or ``None``.
    """

    what: str
    ts_ns: int
    dur_ns: int
    around_ns: int
    query: str | None = None


def link(url: str, focus: Focus | None = None, *, perfetto: str = PERFETTO) -> str:
    """The address that opens the trace at ``url`` in Perfetto, on ``focus`` where there is one.

    >>> link("https://example.org/a b.json")
    'https://ui.perfetto.dev/#!/?url=https%3A%2F%2Fexample.org%2Fa%20b.json'
    """
    parameters: dict[str, str | int] = {"url": url}
    if focus is not None:
        parameters |= {
            "visStart": focus.ts_ns - focus.around_ns,
            "visEnd": focus.ts_ns + focus.dur_ns + focus.around_ns,
            "ts": focus.ts_ns,
            "dur": focus.dur_ns,
        }
        if focus.query is not None:
            parameters["query"] = focus.query
    return f"{perfetto.rstrip('/')}/#!/?{urlencode(parameters, quote_via=quote, safe='')}"


def slowest_step(run: Run) -> Focus | None:
    """The step with the longest wall time; ``None`` where the trace has no steps."""
    if not run.steps:
        return None
    step = max(run.steps, key=lambda step: step.dur_ns)
    return _focus(run, step.name, step.start_ns, step.dur_ns, _AROUND_STEP)


def step(run: Run, number: int) -> Focus:
    """``ProfilerStep#number``.

    Raises:
        InputError: The trace has no such step; the hint lists those that it has.
    """
    for one in run.steps:
        if one.index == number:
            return _focus(run, one.name, one.start_ns, one.dur_ns, _AROUND_STEP)
    known = ", ".join(str(one.index) for one in run.steps[: 2 * _LISTED])
    hint = f"its steps are {known}" if known else "it has none: profile with a schedule and `prof.step()`"
    raise InputError(f"no step {number} in this trace", hint=hint)


def kernel(run: Run, name: str) -> Focus:
    """The longest kernel, copy or set that is called ``name``, or else whose name has ``name`` in it in any case.

    Raises:
        InputError: The trace has none; the hint lists some that it has.
    """
    activities = run.activities
    names = run.trace.tables.name
    codes = run.trace.columns.name[activities.row]
    present = np.unique(codes).tolist()
    inside = name.casefold()
    wanted = [code for code in present if names[code] == name]
    wanted = wanted or [code for code in present if inside in names[code].casefold()]
    found = np.flatnonzero(np.isin(codes, wanted))
    if not len(found):
        some = ", ".join(f"`{names[code]}`" for code in present[:_LISTED])
        raise InputError(f"no kernel `{name}` in this trace", hint=f"it has {some}" if some else "it has no kernels")
    lengths = activities.end_ns[found] - activities.start_ns[found]
    longest = int(found[int(lengths.argmax())])
    whole = run.activity_name(longest)
    query = _QUERY.format(whole.replace("'", "''"))
    return _focus(run, whole, int(activities.start_ns[longest]), int(lengths.max()), _AROUND_KERNEL, query)


def _focus(run: Run, what: str, start_ns: int, dur_ns: int, around: float, query: str | None = None) -> Focus:
    base = run.trace.metadata.get("baseTimeNanoseconds")
    first_ns = run.trace.base_ns - (base if isinstance(base, int) else 0)
    return Focus(what, first_ns + start_ns, dur_ns, max(round(dur_ns * around), _LEAST_AROUND_NS), query)
