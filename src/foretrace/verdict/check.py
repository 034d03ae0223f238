"""A guess against a run: which kernels were confirmed, which broke, and what ran that nobody expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretrace.units import plural
from foretrace.verdict import reasons
from foretrace.verdict.align import align
from foretrace.verdict.checked import Checked, Row
from foretrace.verdict.observed import observe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foretrace.devices import Device
    from foretrace.run import Run
    from foretrace.verdict.align import Match
    from foretrace.verdict.checked import Verdict
    from foretrace.verdict.observed import Observation, Seen
    from foretrace.verdict.records import Guess, GuessedKernel


def check(guess: Guess, run: Run, *, exact: bool = False) -> Checked:
    """Hold a guess against a typical step of a run.

    Args:
        guess: What should run in one call.
        run: What ran.
        exact: Whether a kernel that was not guessed breaks the guess; a GEMM's helper counts with its GEMM and memory
            sets are no kernels, so neither ever does. A guess that nothing runs is always exact.
    """
    exact = exact or not guess.kernels
    observation = observe(run)
    if not observation.of:
        why = "this trace holds no GPU work"
        nothing = [Row(verdict="unknown", guess=k.label, why=why, op_class=k.op_class) for k in guess.kernels]
        return Checked(tuple(nothing), len(nothing), 0, tuple(_notes(guess, run, observation)))
    matches = align(guess.kernels, observation.work)
    rows = list(_rows(guess.kernels, observation.work, matches, run.device, exact=exact))
    graphs = _graphs(guess, observation)
    rows = [*([graphs] if graphs else []), *rows, *_sets(observation.sets)]
    notes = tuple(_notes(guess, run, observation))
    return Checked(tuple(rows), len(guess.kernels), len(observation.work), notes, observation.copies)


def _rows(
    guesses: Sequence[GuessedKernel],
    seen: Sequence[Seen],
    matches: Sequence[Match],
    device: Device | None,
    *,
    exact: bool,
) -> Iterator[Row]:
    """The rows of each stretch between two aligned pairs, then those of the pair."""
    lost: list[GuessedKernel] = []
    extra: list[Seen] = []
    for match in matches:
        if match.guess is not None and match.seen is not None:
            yield from _apart(lost, extra, seen, device, exact=exact)
            lost, extra = [], []
            yield from _together(guesses[match.guess], seen[match.seen], moved=match.moved)
        elif match.guess is not None:
            lost.append(guesses[match.guess])
        elif match.seen is not None:
            extra.append(seen[match.seen])
    yield from _apart(lost, extra, seen, device, exact=exact)


def _together(guess: GuessedKernel, seen: Seen, *, moved: bool) -> Iterator[Row]:
    against = reasons.contradiction(guess, seen)
    floor = guess.floor_ns if guess.bound is not None else _rounded(seen.floor_ns)
    yield Row(
        verdict="broken" if against else "confirmed",
        guess=guess.label,
        observed=(seen.name,),
        why=against or reasons.confirmation(guess, seen, moved=moved),
        op_class=guess.op_class,
        dur_ns=round(seen.dur_ns),
        floor_ns=floor,
    )
    if not against and floor and seen.dur_ns > reasons.SLOW * floor:
        why = f"{guess.label} {reasons.slow(seen.dur_ns, floor)}"
        yield Row(verdict="surprise", observed=(seen.name,), why=why, op_class=seen.op_class)


def _apart(
    lost: Sequence[GuessedKernel], extra: Sequence[Seen], seen: Sequence[Seen], device: Device | None, *, exact: bool
) -> Iterator[Row]:
    """What has no partner; a guess and a kernel of unknown class in one place may be each other's."""
    nameless = [one for one in extra if one.op_class in {"unknown", "other"}]
    known = [one for one in extra if one not in nameless]
    for guess in lost:
        if guess.op_class == "gemm-helper":
            yield Row(verdict="surprise", guess=guess.label, why=reasons.no_split(guess), op_class=guess.op_class)
        elif nameless:
            one = nameless.pop(0)
            why = f"`{one.identity.short}` ran in its place, and its name does not say what it does"
            yield _ran(one, "unknown", why, guess.label)
        else:
            yield Row(verdict="broken", guess=guess.label, why=reasons.missing(guess, seen), op_class=guess.op_class)
    for one in [*known, *nameless]:
        if one.op_class == "gemm-helper":
            yield _ran(one, "surprise", reasons.split(one, device))
        elif one.op_class == "unknown":
            yield _ran(one, "broken" if exact else "unknown", "not guessed, and its name does not say what it does")
        else:
            yield _ran(one, "broken" if exact else "surprise", reasons.unexpected(one))


def _ran(seen: Seen, verdict: Verdict, why: str, guess: str | None = None) -> Row:
    return Row(
        verdict=verdict,
        guess=guess,
        observed=(seen.name,),
        why=why,
        op_class=seen.op_class,
        dur_ns=round(seen.dur_ns),
        floor_ns=_rounded(seen.floor_ns),
    )


def _graphs(guess: Guess, observation: Observation) -> Row | None:
    """Compiled graphs are a part of the guess: a break more or less is worth more than any kernel."""
    if guess.graphs is None or (guess.graphs == 0 and observation.graphs == 0):
        return None
    named = f"{guess.target} as " if guess.target else ""
    said = f"{named}{plural(guess.graphs, 'graph') if guess.graphs else 'eager code'}"
    generated = any(one.identity.family == "inductor" for one in observation.work)
    if guess.graphs and not observation.graphs and generated:
        return Row(verdict="unknown", guess=said, why="this trace does not mark compiled regions")
    ran = f"{observation.graphs:,} graphs" if observation.graphs != 1 else "1 graph"
    if guess.graphs == observation.graphs:
        return Row(verdict="confirmed", guess=said, observed=(ran,))
    where = f"; guessed breaks: {'; '.join(guess.breaks)}" if guess.breaks else ""
    why = f"{plural(guess.graphs, 'compiled graph')} guessed, {observation.graphs:,} ran{where}"
    return Row(verdict="broken", guess=said, observed=(ran,), why=why)


def _sets(some: Sequence[Seen]) -> Iterator[Row]:
    if some:
        why = f"{plural(len(some), 'memory set')}: {reasons.sets(some)}"
        dur = round(sum(one.dur_ns for one in some))
        yield Row(verdict="surprise", observed=tuple(one.name for one in some), why=why, op_class="fill", dur_ns=dur)


def _notes(guess: Guess, run: Run, observation: Observation) -> Iterator[str]:
    if not observation.of:
        yield "the trace holds no GPU work: nothing can be confirmed"
    elif observation.alike < observation.of:
        yield f"steps differ: {observation.alike} of {observation.of} ran what is held against the guess"
    if guess.device and run.device_name and run.device is not None and run.device.name != guess.device:
        yield f"the guess is about {guess.device}, the trace was taken on {run.device_name}"


def _rounded(ns: float | None) -> int | None:
    return None if ns is None else round(ns)
