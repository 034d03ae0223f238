"""``foretrace profile --where hf-jobs``: what is asked before it costs money, and what is shown meanwhile."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foretrace.errors import InputError
from foretrace.render.safe import visible
from foretrace.run import read
from foretrace.share import hub, jobs
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from huggingface_hub import HfApi

_LISTED = 5


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """Where to profile.

    Attributes:
        where: On this machine, or on a GPU of Hugging Face Jobs, which costs money.
        flavor: Hardware of the job, such as `a100-large`.
        timeout: End the job after this (`90s`, `30m`, `2h`).
        yes: Submit the job without asking.
    """

    where: Literal["here", "hf-jobs"] = "here"
    flavor: str | None = None
    timeout: str = "30m"
    yes: Annotated[bool, Parameter(name=["--yes", "-y"])] = False


HERE = Where()
"""What is used when no flag is given."""


def profile_on_hub(
    target: str, arguments: Sequence[str], where: Where, out: Path, *, force: bool
) -> list[tuple[str, str, str | None]]:
    """Submit a job, follow its log on stderr, and bring its traces to ``out``.

    Args:
        target: As ``foretrace profile`` takes it.
        arguments: The other arguments of ``foretrace profile`` for the job, ``--`` and what follows it included.
        where: The hardware.
        out: Folder for the traces.
        force: Replace traces of the same name.

    Returns:
        Name, trace, and why there is none, of each variant, as `foretrace.report.profile.profile_record` takes them.
    """
    api = hub.connect()
    user = hub.whoami(api)
    chosen = jobs.flavor(api, where.flavor)
    most = jobs.most_usd(chosen, where.timeout)
    with TemporaryDirectory(prefix="foretrace-") as staged:
        called, files = jobs.stage(target, Path(staged))
        _say(f"{chosen.name}: {chosen.words}; ${chosen.usd_an_hour:.2f} an hour")
        names = ", ".join(path.name for path in files[:_LISTED]) + ("…" if len(files) > _LISTED else "")
        _say(f"sends {plural(len(files), 'Python file')} ({names}) and foretrace to a private bucket of {user}")
        if not (where.yes or _agreed(f"run for at most {where.timeout}, ${most:.2f}, on the account of {user}?")):
            raise InputError("nothing was submitted", hint="agree with `--yes`")
        job = jobs.submit(api, Path(staged), [called, *arguments], chosen, where.timeout)
    _say(f"job {job.id}: {job.url}")
    failed: list[tuple[str, str, str | None]] = []
    try:
        jobs.follow(api, job, _say)
    except hub.HubError as error:
        failed = [("job", job.url, error.message)]
        if not (fetched := _fetched(api, job, out, force=force)):
            raise
    else:
        fetched = jobs.fetch(api, job, out, force=force)
    return [(_variant(path), str(path), None) for path in fetched if not path.name.endswith(".env.json")] + failed


def _fetched(api: HfApi, job: jobs.Job, out: Path, *, force: bool) -> tuple[Path, ...]:
    """What a job that failed had written before."""
    try:
        return jobs.fetch(api, job, out, force=force)
    except hub.HubError:
        return ()


def _variant(path: Path) -> str:
    environment = read(path).environment
    return (environment and environment.variant) or path.name.partition(".")[0]


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        _say(question)
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")
    sys.stderr.flush()
