"""Where a capture goes: ``NAME.json.gz`` with ``NAME.env.json`` beside it, written whole or not at all."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foretrace.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

_UNFIT = re.compile(r"[^\w.+=-]+")


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """The two files of one capture; in a group of processes each rank has its own, ``NAME_rankN``.

    Args:
        directory: Where they go; made when it is missing.
        name: The stem that both share; characters that file names had better not hold become ``-``.
        force: Whether files that exist may be replaced.
    """

    directory: Path
    name: str
    force: bool = False

    @property
    def trace(self) -> Path:
        """``NAME.json.gz``."""
        return self.directory / f"{self.stem}.json.gz"

    @property
    def environment(self) -> Path:
        """``NAME.env.json``."""
        return self.directory / f"{self.stem}.env.json"

    @property
    def compile_log(self) -> Path:
        """``NAME.compile.log``: there only when ``torch.compile`` had something to say."""
        return self.directory / f"{self.stem}.compile.log"

    @property
    def stem(self) -> str:
        """The name as files spell it: ``geglu_compile:max-autotune`` is ``geglu_compile-max-autotune``."""
        stem = _UNFIT.sub("-", self.name).strip("-.") or "trace"
        rank, world_size = rank_and_world_size()
        return stem if rank is None or world_size == 1 else f"{stem}_rank{rank}"

    def claim(self) -> None:
        """Make the directory and see that nothing would be lost.

        Raises:
            InputError: A file is there already and may not be replaced, or the directory cannot be made.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"`{self.directory}` cannot be made: {error.strerror or error}"
            raise InputError(message, hint="name another directory with `--out DIR`") from error
        for path in (self.trace, self.environment):
            if path.exists() and not self.force:
                message = f"`{path}` exists and is not overwritten"
                raise InputError(message, hint="`--force` (`force=True`) replaces it; or take another `--out`")

    def write(self, profiler: torch.profiler.profile, environment: bytes) -> None:
        """Write the trace, then what it ran on; each in a temporary file that is moved into place."""
        _in_one_piece(self.trace, profiler.export_chrome_trace)
        self.amend(environment)

    def write_compile_log(self, lines: Sequence[str]) -> None:
        """Write what ``torch.compile`` logged; without lines an old file of that name goes."""
        if lines:
            text = "\n".join(lines) + "\n"
            _in_one_piece(self.compile_log, lambda path: Path(path).write_text(text, encoding="utf-8"))
        else:
            self.compile_log.unlink(missing_ok=True)

    def amend(self, environment: bytes) -> None:
        """Write what the trace ran on alone, once more is known of it."""
        _in_one_piece(self.environment, lambda path: Path(path).write_bytes(environment))


def rank_and_world_size() -> tuple[int | None, int | None]:
    """This process among those that a launcher such as ``torchrun`` started (``RANK`` and ``WORLD_SIZE``)."""
    rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return (int(rank), int(world_size)) if rank.isdigit() and world_size.isdigit() else (None, None)


def _in_one_piece(path: Path, write: Callable[[str], object]) -> None:
    # the suffix stays: the profiler compresses by it
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(str(temporary))
        temporary.replace(path)
    except OSError as error:
        message = f"`{path}` cannot be written: {error.strerror or error}"
        raise InputError(message, hint="write elsewhere with `--out DIR`") from error
    finally:
        temporary.unlink(missing_ok=True)
