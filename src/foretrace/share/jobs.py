"""A GPU for those who have none: profile on Hugging Face Jobs and bring the traces home.

The job gets the target's Python files and foretrace itself through a private bucket, mounted in its container, and
leaves its traces there. No token goes with it. foretrace travels as it is installed here, so that the job's traces are
of the same version; PyTorch is the same version too, in the build for the job's GPU.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import secrets
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretrace.errors import InputError
from foretrace.share import bucket as buckets
from foretrace.share.hub import HubError, speaking, whoami

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from huggingface_hub import HfApi

IMAGE = "ghcr.io/astral-sh/uv:python3.12-bookworm"
"""Has Python, uv and the C compiler that Triton needs; the client's own default for uv jobs."""

_BUCKET, _MOUNT, _TRACES = "jobs-artifacts", "/data", "traces"
_FORM = "write `path/to/file.py:factory` or `package.module:factory`"
_MOST_FILES, _MOST_BYTES = 500, 20_000_000
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Flavor:
    """Hardware that a job can have; ``usd_an_hour`` is what the Hub says today."""

    name: str
    words: str
    usd_an_hour: float
    has_gpu: bool


@dataclass(frozen=True, slots=True)
class Job:
    """A job that was submitted.

    Attributes:
        id, namespace, url: Of the job on the Hub.
        place: Where its files are: ``hf://buckets/…``.
    """

    id: str
    namespace: str
    url: str
    place: str


def flavors(api: HfApi) -> tuple[Flavor, ...]:
    """What there is today, as the Hub lists it.

    Raises:
        HubError: The Hub could not be asked.
    """
    with speaking("the list of hardware"):
        return tuple(_flavor(hardware) for hardware in api.list_jobs_hardware())


def flavor(api: HfApi, name: str | None) -> Flavor:
    """The flavor called ``name``.

    Raises:
        InputError: There is none of that name, or none was named; the hint lists those with a GPU.
    """
    known = flavors(api)
    for one in known:
        if one.name == name:
            return one
    listed = ", ".join(f"{one.name} (${one.usd_an_hour:.2f}/h)" for one in known if one.has_gpu)
    raise InputError(
        f"no flavor `{name}` on Hugging Face Jobs" if name else "no flavor was named",
        hint=f"--flavor is one of {listed}",
    )


def most_usd(one: Flavor, timeout: str) -> float:
    """What a job costs that runs for ``timeout`` (``30m``).

    Raises:
        InputError: ``timeout`` is no duration.
    """
    match = _DURATION.fullmatch(timeout)
    if match is None:
        raise InputError(f"`{timeout}` is no duration", hint="give it as `--timeout 30m`")
    return one.usd_an_hour * float(match[1]) * _SECONDS[match[2]] / 3600


def stage(target: str, into: Path) -> tuple[str, tuple[Path, ...]]:
    """Copy what the job needs into a folder: the target's Python files, and foretrace.

    Of ``path/file.py:factory`` these are the Python files beside it, of ``package.module:factory`` the package's.

    Returns:
        The target as the job calls it, and which files of the target were copied.

    Raises:
        InputError: There is no such file or module, or too much beside it.
    """
    place, colon, attribute = target.rpartition(":")
    if not colon or "/" in attribute or "\\" in attribute:
        place, attribute = target, ""
    if place.endswith(".py") or Path(place).is_file():
        root, named = Path(place).parent, Path(place).name
        files = sorted(root.glob("*.py")) if Path(place).is_file() else []
        called = f"{_MOUNT}/input/{named}"
    else:
        root, files = _package(place)
        called = place
    if not files:
        raise InputError(
            f"`{place}` does not exist", hint="write `path/to/file.py:factory` or `package.module:factory`"
        )
    if len(files) > _MOST_FILES or sum(path.stat().st_size for path in files) > _MOST_BYTES:
        raise InputError(
            f"too many Python files beside `{place}` to send", hint="put the target in a folder of its own"
        )
    for path in files:
        copy = into / "input" / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    ours = Path(__file__).parents[1]
    shutil.copytree(ours, into / "lib" / ours.name, ignore=shutil.ignore_patterns("__pycache__", "recorded"))
    return (f"{called}:{attribute}" if attribute else called), tuple(files)


def submit(api: HfApi, staged: Path, arguments: Sequence[str], one: Flavor, timeout: str) -> Job:
    """Send the staged folder and start the job.

    Args:
        api: The Hub's client.
        staged: What `stage` filled.
        arguments: Of ``foretrace profile``, without ``--out``.
        one: The hardware.
        timeout: The job is ended after that.

    Raises:
        InputError: Nobody is logged in, or the bucket for jobs is public.
        HubError: The Hub could not be asked, or refused.
    """
    namespace = whoami(api)
    bucket = buckets.find(api, _BUCKET, namespace)
    if bucket.private is False:
        raise InputError(f"bucket `{bucket.id}` is public", hint=f"code goes there: make it private at {bucket.page}")
    name = f"foretrace-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    with speaking(f"bucket `{bucket.id}`"):
        volume = api.sync_job_volume(staged, _MOUNT, remote_name=name, read_only=False, namespace=namespace)
    with speaking(f"a job on {one.name}"):
        job = api.run_job(
            image=IMAGE,
            command=command(arguments),
            env={"PYTHONPATH": f"{_MOUNT}/lib:{_MOUNT}/input"},
            flavor=one.name,
            timeout=timeout,
            volumes=[volume],
            namespace=namespace,
        )
    return Job(job.id, namespace, job.url, f"hf://buckets/{bucket.id}/{name}")


def command(arguments: Sequence[str]) -> list[str]:
    """What the container runs."""
    needs = (
        requirement for requirement in importlib.metadata.requires("foretrace") or () if "extra ==" not in requirement
    )
    packages = [_torch(), *needs]
    uv = ["uv", "run", "--no-project", *(part for package in packages for part in ("--with", package))]
    head, dashes, tail = _parted(arguments)
    return [*uv, "python", "-m", "foretrace", "profile", *head, "--out", f"{_MOUNT}/{_TRACES}", *dashes, *tail]


def follow(api: HfApi, job: Job, say: Callable[[str], None]) -> None:
    """Pass on the job's log until it ends; an interrupt cancels the job.

    Raises:
        HubError: The job failed, or the Hub could not be asked.
    """
    try:
        with speaking(f"the log of job {job.id}"):
            for line in api.fetch_job_logs(job_id=job.id, namespace=job.namespace, follow=True):
                say(line)
            status = api.inspect_job(job_id=job.id, namespace=job.namespace).status
    except KeyboardInterrupt:
        with speaking(f"job {job.id}"):
            api.cancel_job(job_id=job.id, namespace=job.namespace)
        say(f"job {job.id} was cancelled")
        raise
    stage_now = str(getattr(status.stage, "value", status.stage))
    if stage_now != "COMPLETED":
        why = f": {status.message}" if status.message else ""
        raise HubError(f"the job ended with {stage_now}{why}", hint=f"its log is above and at {job.url}")


def fetch(api: HfApi, job: Job, into: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Bring the traces of a job, and what lies beside each, into a folder.

    Raises:
        InputError: A file of that name is there and ``force`` was not given; nothing is overwritten.
        HubError: The Hub could not be asked, or the job left no trace.
    """
    into.mkdir(parents=True, exist_ok=True)
    arrived = into / f".{job.id}"
    try:
        with speaking(f"the traces of job {job.id}"):
            api.sync_bucket(f"{job.place}/{_TRACES}", str(arrived), include=["*.json", "*.json.gz"], quiet=True)
        files = sorted(path for path in arrived.rglob("*") if path.is_file()) if arrived.is_dir() else []
        if not files:
            raise HubError(f"job {job.id} left no trace", hint=f"see its log at {job.url}")
        for path in files:
            if (into / path.name).exists() and not force:
                hint = f"they are at {job.place}/{_TRACES}; replace yours with `--force`, or take another `--out`"
                raise InputError(f"`{into / path.name}` is already there", hint=hint)
        return tuple(path.replace(into / path.name) for path in files)
    finally:
        shutil.rmtree(arrived, ignore_errors=True)


def _flavor(hardware: Any) -> Flavor:  # noqa: ANN401 - JobHardwareInfo
    gpu = hardware.accelerator
    per_hour = {"second": 3600, "minute": 60, "hour": 1, "day": 1 / 24}.get(hardware.unit_label, 1)
    card = f", {gpu.quantity}× {gpu.model} {gpu.vram}" if gpu is not None else ""
    words = f"{hardware.pretty_name}: {hardware.cpu}, {hardware.ram}{card}"
    return Flavor(hardware.name, words, hardware.unit_cost_usd * per_hour, gpu is not None)


def _package(module: str) -> tuple[Path, list[Path]]:
    """The folder above the top package of ``module``, and its Python files."""
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        return Path(), []
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return origin.parent, [origin]
    return origin.parents[1], sorted(origin.parent.rglob("*.py"))


def _torch() -> str:
    """PyTorch as it is here, in whatever build fits there; a nightly build is not to be had by its version."""
    try:
        version = importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "torch"
    return f"torch=={version}" if re.fullmatch(r"\d+\.\d+\.\d+", version) else "torch"


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """What stands before ``--``, the ``--``, and what stands after it."""
    if "--" not in arguments:
        return list(arguments), [], []
    at = list(arguments).index("--")
    return list(arguments[:at]), ["--"], list(arguments[at + 1 :])
