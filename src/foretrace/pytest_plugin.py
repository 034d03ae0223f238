"""pytest plugin: hold a block of a test against the kernels that it should launch.

    def test_mlp(kernels):
        with kernels.expect(gemm=3, pointwise=2, at_most=6):
            model(x)

    @pytest.mark.kernels("3 gemm, 2 pointwise")
    def test_forward(): ...

    def test_layers(kernels):
        with kernels.accepted():  # held against a file beside the test; `--foretrace-update` writes it
            model(x)

Where the work is on a GPU, kernels that ran are counted, from a profile; on the CPU, ops that would launch one.
"""

from __future__ import annotations

import difflib
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from foretrace.verdict import Expected, GuessedKernel

_FOLDER = "accepted_kernels"
_SUMMARY = "GITHUB_STEP_SUMMARY"
_NOT_WORD = re.compile(r"[^\w.-]+")
_outcomes = pytest.StashKey[list["Outcome"]]()


@dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation of one test, for the summary."""

    test: str
    expected: str
    ran: str
    held: bool


class Kernels:
    """What the fixture ``kernels`` gives.

    Attributes:
        ran: Kernels of the last block, in launch order.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._node = request.node
        self._config = request.config
        self.ran: tuple[GuessedKernel, ...] = ()

    @contextmanager
    def expect(
        self, words: str | None = None, /, *, at_most: int | None = None, exact: bool = False, **classes: int
    ) -> Iterator[None]:
        """Fail unless the block launches so many kernels of each class.

        Args:
            words: ``"3 gemm, 2 pointwise"``, as ``foretrace check --expect`` takes it.
            at_most: The most kernels of all classes together.
            exact: Whether classes that are not named may not run at all.
            classes: ``gemm=3``, ``gather_scatter=1``…

        Raises:
            InputError: A class is none.
        """
        from foretrace.verdict import parse_words  # noqa: PLC0415 - pytest starts without it

        said = [words] if words else []
        said += [f"{count} {name}" for name, count in classes.items()]
        said += [f"at most {at_most} kernels"] if at_most is not None else []
        expected = parse_words(", ".join(said))
        with self.watched():
            yield
        self._hold(expected, exact=exact)

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Fail unless the block launches what it launched when its file was accepted, kernel by kernel."""
        from foretrace.verdict import Guess, read_guess, to_toml  # noqa: PLC0415 - pytest starts without it

        with self.watched():
            yield
        path = Path(self._node.path).parent / _FOLDER / f"{_NOT_WORD.sub('_', self._node.name)}.toml"
        if self._config.getoption("--foretrace-update"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(to_toml(Guess(kernels=self.ran, target=self._node.name)), encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"nothing is accepted yet: `pytest --foretrace-update` writes {path}", pytrace=False)
        before, now = _lines(read_guess(path).kernels), _lines(self.ran)
        self._note(f"as accepted in {path.name}", held=before == now)
        if before != now:
            shown = "\n".join(difflib.ndiff(before, now))
            pytest.fail(f"other kernels than accepted (- accepted, + now):\n{shown}", pytrace=False)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Collect what the block launches in `ran`, and expect nothing."""
        import torch  # noqa: PLC0415 - pytest starts without it

        on_gpu = torch.cuda.is_available() and torch.cuda.memory_allocated() > 0
        found: list[GuessedKernel] = []
        with _profiled(found) if on_gpu else _dispatched(found):
            yield
        self.ran = tuple(found)

    def _hold(self, expected: Sequence[Expected], *, exact: bool) -> None:
        counts: dict[str, list[str]] = {}
        for kernel in self.ran:
            if kernel.op_class != "gemm-helper":
                counts.setdefault(kernel.op_class, []).append(kernel.label)
        total = sum(map(len, counts.values()))
        wrong = [
            f"expected {one.text}, {_ran(one.what, counts, total)}"
            for one in expected
            if not one.holds(total if one.what == "kernel" else len(counts.get(one.what, ())))
        ]
        named = {one.what for one in expected}
        if exact:
            wrong += [f"expected nothing else, {_ran(name, counts, total)}" for name in counts if name not in named]
        self._note(", ".join(one.text for one in expected), held=not wrong)
        if wrong:
            listed = "\n".join(f"  {line}" for line in _lines(self.ran))
            pytest.fail("\n".join([*wrong, "", "what ran:", listed or "  nothing"]), pytrace=False)

    def _note(self, expected: str, *, held: bool) -> None:
        counts: dict[str, int] = {}
        for kernel in self.ran:
            counts[kernel.op_class] = counts.get(kernel.op_class, 0) + 1
        ran = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
        self._node.user_properties.append(("kernels", ran))  # pytest's own JUnit file shows it
        self._config.stash[_outcomes].append(Outcome(self._node.nodeid, expected, ran, held))


def _ran(what: str, counts: dict[str, list[str]], total: int) -> str:
    if what == "kernel":
        return f"{total} ran"
    names = counts.get(what, [])
    return f"{len(names)} {what} ran" + (f": {', '.join(names)}" if names else "")


def _lines(kernels: Sequence[GuessedKernel]) -> list[str]:
    """One line a kernel: class, op and module; sizes are left to the profiler."""
    return [f"{k.op_class:14}{k.label}" for k in kernels if k.op_class != "gemm-helper"]


@contextmanager
def _dispatched(found: list[GuessedKernel]) -> Iterator[None]:
    """Ops that would launch a kernel, on whatever device the block computes."""
    from foretrace.guess.launches import launches  # noqa: PLC0415 - imports torch
    from foretrace.guess.record import Call, recording  # noqa: PLC0415 - as above
    from foretrace.verdict import GuessedKernel  # noqa: PLC0415 - as above

    with recording() as recorder:
        yield
    for call in recorder.calls:
        if isinstance(call, Call):
            found += [
                GuessedKernel(
                    op_class=one.op_class, op=one.op, shapes=one.shapes or None, source=call.source, phase=call.phase
                )
                for one in launches(call, None)
            ]


@contextmanager
def _profiled(found: list[GuessedKernel]) -> Iterator[None]:
    """Kernels and copies that a GPU ran, from a profile of the block."""
    import tempfile  # noqa: PLC0415 - only where there is a GPU

    import torch  # noqa: PLC0415 - as above

    from foretrace.run import read  # noqa: PLC0415 - as above
    from foretrace.verdict import GuessedKernel  # noqa: PLC0415 - as above
    from foretrace.verdict.observed import observe  # noqa: PLC0415 - as above

    with torch.profiler.profile(record_shapes=True) as profiler:
        yield
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "block.json"
        profiler.export_chrome_trace(str(path))
        seen = observe(read(path)).work
    found += [GuessedKernel(op_class=s.op_class, op=s.op, shapes=s.shapes or None, source=s.module) for s in seen]


@pytest.fixture
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """Expectations about the kernels of a block: ``with kernels.expect(gemm=3): model(x)``."""
    return Kernels(request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test with the marker ``kernels`` is one block."""
    marker = item.get_closest_marker("kernels")
    if marker is None or not hasattr(item, "_request"):
        return (yield)
    with Kernels(item._request).expect(*marker.args, **marker.kwargs):  # noqa: SLF001 - the item's own request
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--foretrace-update``."""
    group = parser.getgroup("foretrace")
    group.addoption("--foretrace-update", action="store_true", help="accept the kernels that `kernels.accepted()` sees")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "kernels(words, **counts): kernels that the test launches, as `kernels.expect`")
    config.stash[_outcomes] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Append a table to GitHub's step summary, where there is one."""
    outcomes, path = session.config.stash.get(_outcomes, []), os.environ.get(_SUMMARY)
    if not outcomes or not path:
        return
    rows = [f"| {'held' if o.held else '**broken**'} | `{o.test}` | {o.expected} | {o.ran} |" for o in outcomes]
    head = ["### Kernels", "", "| | test | expected | ran |", "|---|---|---|---|"]
    with Path(path).open("a", encoding="utf-8") as summary:
        summary.write("\n".join([*head, *rows, "", ""]))
