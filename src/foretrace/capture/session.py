"""One capture, from the first warm-up call to the two files: what ``foretrace.profile`` returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from foretrace.capture import accelerator, recording
from foretrace.capture.baseline import UNKNOWN, measure
from foretrace.capture.environment import Environment
from foretrace.capture.files import OutputFiles
from foretrace.capture.progress import Progress, silent
from foretrace.capture.schedule import Schedule
from foretrace.capture.scopes import ModuleScopes
from foretrace.errors import InputError
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from torch.autograd.profiler import record_function


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a session goes about its work.

    Attributes:
        schedule: Steps that the profiler skips, warms up in, and records.
        region: Name of the ``record_function`` scope around each step.
        device: The device to wait for and to time.
        modules: The module that gets named scopes, with all inside it.
        unprofiled: Whether the step is timed without the profiler first.
        stacks: Whether Python stacks are recorded: slow, and large files.
        memory: Whether allocations are recorded.
        target: For the environment file: what is profiled.
        variant: For the environment file: in which variant.
        source: A path inside the repository whose commit is recorded.
        progress: Told where the session is.
    """

    schedule: Schedule
    region: str
    device: torch.device
    modules: torch.nn.Module | None = None
    unprofiled: bool = True
    stacks: bool = False
    memory: bool = False
    target: str | None = None
    variant: str | None = None
    source: Path = field(default_factory=Path)
    progress: Progress = silent


def profile(
    name: str,
    *,
    out: str | Path = "traces",
    wait: int = 1,
    warmup: int = 1,
    active: int = 3,
    region: str | None = None,
    modules: torch.nn.Module | None = None,
    device: torch.device | str | None = None,
    unprofiled: bool = True,
    stacks: bool = False,
    memory: bool = False,
    force: bool = False,
    progress: Progress = silent,
) -> Session:
    """Profile the body of a loop and write ``NAME.json.gz`` and ``NAME.env.json``.

    >>> with foretrace.profile("mlp", modules=model) as p:  # doctest: +SKIP
    ...     for _ in p.steps():
    ...         model(x)

    The body runs four times to warm up, then for about 0.2 s (at least three times) to be timed without the
    profiler, the same again on a GPU's clock and with module scopes, then ``wait + warmup + active`` times under
    the profiler. With a loop of one's own, call ``p.step()`` after each step, ``max(wait, 1) + warmup + active``
    times or more; nothing is timed without the profiler then.

    Args:
        name: Stem of the two files.
        out: Directory for them.
        wait: Steps that the profiler skips.
        warmup: Steps in which it runs and forgets.
        active: Steps that it records.
        region: Name of the scope around each step; ``name`` unless given.
        modules: Name this module and all inside it in the trace.
        device: The device to wait for and to time; that of ``modules``, else the machine's accelerator.
        unprofiled: Time the step without the profiler first.
        stacks: Record Python stacks: slow, and large files.
        memory: Record allocations.
        force: Replace files that exist.
        progress: Called with what is being done, how much is done, and how much there is.

    Raises:
        InputError: The schedule is no schedule. From the ``with`` statement: a file exists, the block was left
            before all steps had run, or no operator ran in them.
    """
    options = Options(
        schedule=Schedule(wait, warmup, active),
        region=region or name,
        device=accelerator.find_device(modules) if device is None else accelerator.with_index(device),
        modules=modules,
        unprofiled=unprofiled,
        stacks=stacks,
        memory=memory,
        progress=progress,
    )
    return Session(OutputFiles(Path(out), name, force), options)


class Session:
    """A capture under way; a context manager. See `profile`.

    Attributes:
        files: The two files, written when the block is left in good order.
        environment: What ``NAME.env.json`` holds; ``None`` before it is written.
    """

    def __init__(self, files: OutputFiles, options: Options) -> None:
        self.files = files
        self.environment: Environment | None = None
        self._options = options
        self._synchronize = partial(accelerator.synchronize, options.device)
        self._scopes = None if options.modules is None else ModuleScopes(options.modules)
        self._profiler: torch.profiler.profile | None = None
        self._region: record_function | None = None
        self._baseline = UNKNOWN
        self._entered = False
        self._iterated = False
        self._left = options.schedule.steps

    def __enter__(self) -> Self:
        self.files.claim()
        self._entered = True
        accelerator.reset_peak_memory(self._options.device)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered = False
        self._close()
        if kind is None:
            self._save()

    def steps(self) -> Iterator[int]:
        """Every run of the body that is needed, the unprofiled ones too, counted from 0.

        Raises:
            InputError: Called a second time, after `step`, or outside the ``with`` block.
        """
        self._check_entered()
        if self._iterated or self._profiler is not None:
            message = f"`{self.files.name}`: the steps of a session run once"
            raise InputError(message, hint="open another `foretrace.profile(...)` for more of them")
        self._iterated = True
        return (number for number, _ in enumerate(self._run()))

    def step(self) -> None:
        """End a step of a loop of one's own.

        What ran before the first call was not profiled and counts as a step of ``wait``. Calls after the last
        step that is needed change nothing.

        Raises:
            InputError: Called inside a loop over `steps`, or outside the ``with`` block.
        """
        self._check_entered()
        if self._iterated:
            message = f"`{self.files.name}`: `p.steps()` ends each step itself"
            raise InputError(message, hint="take `p.step()` out of the loop over `p.steps()`")
        if self._profiler is None:
            wait = max(self._options.schedule.wait - 1, 0)
            self._start(replace(self._options.schedule, wait=wait))
        elif self._left:
            self._advance()

    def table(self, rows: int = 20) -> str:
        """The profiler's own table of operators, the costliest first (on the device, where it did anything).

        Raises:
            InputError: Not all steps have run.
        """
        if self._profiler is None or self._left:
            message = f"`{self.files.name}`: nothing has been recorded that a table could show"
            raise InputError(message, hint="ask for the table after the `with` block")
        return recording.table(self._profiler, rows)

    def _check_entered(self) -> None:
        if not self._entered:
            message = f"`{self.files.name}`: the session is not open, so nothing would be written"
            raise InputError(message, hint="write `with foretrace.profile(...) as p:` around the steps")

    def _run(self) -> Iterator[None]:
        options = self._options
        self._baseline = yield from measure(
            options.device,
            self._synchronize,
            timed=options.unprofiled,
            scopes=self._scopes,
            progress=options.progress,
        )
        self._start(options.schedule)
        while self._left:
            yield
            self._advance()

    def _start(self, schedule: Schedule) -> None:
        options = self._options
        if self._scopes is not None:
            self._scopes.install()
        self._profiler = recording.new_profiler(schedule, stacks=options.stacks, memory=options.memory)
        self._left = schedule.steps
        options.progress("profiling", 0, schedule.steps)  # never again: drawing a bar would be in the trace
        self._profiler.start()
        self._open_region()

    def _advance(self) -> None:
        assert self._profiler is not None, "only a started session advances"
        self._close_region()
        self._left -= 1
        if not self._left:
            self._synchronize()  # what the last step has queued belongs to it
        self._profiler.step()
        if self._left:
            self._open_region()
        else:
            self._close()

    def _open_region(self) -> None:
        self._region = torch.profiler.record_function(self._options.region)
        self._region.__enter__()  # type: ignore[no-untyped-call]

    def _close_region(self) -> None:
        if self._region is not None:
            self._region.__exit__(None, None, None)
            self._region = None

    def _close(self) -> None:
        """Leave no open region, no running profiler and no hook behind; harmless when repeated."""
        self._close_region()
        if self._profiler is not None:
            self._profiler.stop()
        if self._scopes is not None:
            self._scopes.remove()

    def _save(self) -> None:
        if self._profiler is None or self._left:
            raise self._too_few_steps()
        options = self._options
        if not recording.has_operators(self._profiler, options.region):
            message = f"`{self.files.name}`: no PyTorch operator ran in the recorded steps; nothing was written"
            raise InputError(message, hint="call the model inside the loop, once a step")
        self.environment = Environment.collect(
            self._profiler,
            name=self.files.stem,
            device=options.device,
            source=options.source,
            target=options.target,
            variant=options.variant,
            region=options.region,
            schedule=options.schedule,
            baseline=self._baseline,
            scopes=0 if self._scopes is None else self._scopes.count,
        )
        options.progress("writing the trace", 0, 0)
        self.files.write(self._profiler, self.environment.to_json())

    def _too_few_steps(self) -> InputError:
        schedule = self._options.schedule
        if self._iterated:
            hint = "let `for _ in p.steps():` run to its end, without `break`"
        else:
            needed = max(schedule.wait, 1) + schedule.warmup + schedule.active
            hint = f"loop over `p.steps()`, or call `p.step()` after each step, {needed} times or more"
        where = "before the profiler started" if self._profiler is None else f"{plural(self._left, 'step')} too early"
        message = f"`{self.files.name}`: the block was left {where} ({schedule}); nothing was written"
        return InputError(message, hint=hint)
