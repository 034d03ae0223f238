"""Set up a virtual environment with everything pinned in constraints.txt: `make setup`, `make ladder`, `make test`.

Needs Python 3.11 or newer and nothing else. Where a PyTorch that sees a GPU is already installed, the environment
builds on it; elsewhere the pinned PyTorch is installed as pip finds it, and its size is said first. Repeatable: a
second call does nothing unless the pins changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import Request, url2pathname, urlopen

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "constraints.txt"
NEW_PIP = "pip>=25.1"  # the first that reads dependency groups
SEES_A_GPU = "import torch, sys; sys.exit(not torch.cuda.is_available())"


def main() -> None:
    """Create or refresh the environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the virtual environment is kept")
    parser.add_argument("--dev", action="store_true", help="what tests, types and lint need, too")
    arguments = parser.parse_args()
    folder, dev = arguments.folder.resolve(), arguments.dev
    if sys.version_info < (3, 11):
        sys.exit(f"error: Python {sys.version.split()[0]} is too old\n\nhint: make PYTHON=python3.12")
    stamp = folder / ".foretrace-stamp"
    pins = hashlib.sha256(PINS.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() in {f"{pins} dev", f"{pins} {'dev' if dev else 'run'}"}:
        return
    has_gpu_torch = _succeeds(sys.executable, "-c", SEES_A_GPU)
    say(f"setting up {folder} (Python {sys.version.split()[0]})")
    venv.create(folder, with_pip=True, system_site_packages=has_gpu_torch, clear=not stamp.is_file())
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    pip(python, "--upgrade", NEW_PIP)
    if has_gpu_torch:
        say("this machine's PyTorch sees a GPU: using it")
        kept = [line for line in PINS.read_text().splitlines() if not line.startswith(("torch==", "triton=="))]
        constraints = folder / "constraints-gpu.txt"
        constraints.write_text("\n".join(kept))
    else:
        constraints = PINS
        torch = next(line for line in PINS.read_text().splitlines() if line.startswith("torch=="))
        say_size(python, torch)
        pip(python, torch, "-c", str(PINS))
    extras = "[hub,liger]" if dev or has_gpu_torch else ""  # without a GPU no kernel from the Hub or of Liger's can run
    group = ["--group", f"{ROOT / 'pyproject.toml'}:dev"] if dev else []
    pip(python, "-c", str(constraints), *group, "-e", f"{ROOT}{extras}")
    stamp.write_text(f"{pins} {'dev' if dev else 'run'}")


def say(text: str) -> None:
    """Talk goes to stderr."""
    print(f"• {text}", file=sys.stderr, flush=True)


def say_size(python: str, requirement: str) -> None:
    """Say how much pip is about to bring for PyTorch and what it needs."""
    report = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-", requirement, "-c", str(PINS)],
        check=False,
        capture_output=True,
        text=True,
    )
    if report.returncode:
        return  # the real install is about to say what is wrong
    urls = [item["download_info"]["url"] for item in json.loads(report.stdout)["install"]]
    sizes = [n_bytes(url) for url in urls]
    total = sum(size for size in sizes if size is not None)
    unknown = sum(size is None for size in sizes)
    more = f" and {unknown} of unknown size" if unknown else ""
    say(f"no GPU here: installing {requirement} as pip finds it, {total / 1e6:,.0f} MB in {len(urls)} packages{more}")


def n_bytes(url: str) -> int | None:
    """Size of a wheel on disk or on a server, bytes."""
    parts = urlparse(url)
    try:
        if parts.scheme == "file":
            return Path(url2pathname(parts.path)).stat().st_size
        with urlopen(Request(url, method="HEAD"), timeout=20) as answer:  # noqa: S310 - pip's own https address
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def pip(python: str, *arguments: str) -> None:
    """Install, and stop with pip's own words when that fails."""
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", *arguments], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    main()
