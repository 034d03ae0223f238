"""Run a script as it is, from beginning to end under the profiler."""

from __future__ import annotations

import contextlib
import runpy
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.capture import accelerator, recording
from foretrace.capture.captured import Captured
from foretrace.capture.environment import Environment
from foretrace.capture.files import OutputFiles
from foretrace.capture.progress import Progress, silent
from foretrace.capture.target import in_one_line
from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foretrace.capture.target import Script


def capture_script(
    script: Script,
    *,
    out: str | Path = "traces",
    name: str | None = None,
    stacks: bool = False,
    memory: bool = False,
    table_rows: int | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Captured:
    """Run a script from beginning to end under the profiler: no schedule, no warm-up, nothing timed beside it.

    The script sees itself as ``__main__``, its own ``sys.argv``, and its directory first on ``sys.path``; leaving
    with ``sys.exit(0)`` is leaving in good order.

    Raises:
        InputError: A file exists, the script raises or exits with another status, or it runs no operator.
    """
    stem = name or script.path.stem
    files = OutputFiles(Path(out), stem, force)
    files.claim()
    profiler = recording.new_profiler(None, stacks=stacks, memory=memory)
    progress(f"running {script.path.name}", 0, 0)
    with _as_main(script), profiler:
        _run_to_end(script)
        device = accelerator.current_device()  # the script may have chosen one of several
        accelerator.synchronize(device)
    if not recording.has_operators(profiler, None):
        message = f"`{script.path}` ran no PyTorch operator in this process; nothing was written"
        unseen = "work in child processes, or under a profiler of the script's own, cannot be seen from here"
        raise InputError(message, hint=script.factory_hint or unseen)
    environment = Environment.collect(
        profiler,
        name=files.stem,
        device=device,
        source=script.path.resolve().parent,
        target=str(script.path),
        variant=None,
    )
    progress("writing the trace", 0, 0)
    files.write(profiler, environment.to_json())
    table = None if table_rows is None else recording.table(profiler, table_rows)
    return Captured(None, files, environment, table)


def _run_to_end(script: Script) -> None:
    hint = f"run `python {shlex.quote(str(script.path))}` by itself first"
    try:
        runpy.run_path(str(script.path), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            message = f"`{script.path}` ended with exit status {end.code}; nothing was written"
            raise InputError(message, hint=hint) from end
    except Exception as error:
        message = f"`{script.path}` raised {in_one_line(error)}; nothing was written"
        raise InputError(message, hint=hint) from error


@contextlib.contextmanager
def _as_main(script: Script) -> Iterator[None]:
    argv, path = sys.argv, sys.path
    sys.argv = [str(script.path), *script.argv]
    sys.path = [str(script.path.resolve().parent), *path]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path
