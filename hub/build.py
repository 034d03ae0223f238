"""Build the Hub kernel from foretrace's own source: ``python hub/build.py [--out DIR]``.

Writes ``DIR/build/torch-{cpu,cuda,rocm}/``, one copy each: the package is pure Python and Triton, and the backends
differ only in their metadata. Operators register under a namespace of the build's own, named after its content, so
that two versions and an installed foretrace can live in one process.
"""

# ruff: noqa: INP001 - a command beside the package it builds
from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "foretrace" / "fused"
EXTENSION = HERE / "torch-ext" / "foretrace_mlp"
NAME = "foretrace-mlp"
VERSION = 1
BACKENDS = ("cpu", "cuda", "rocm")
# what the layers stand on; identify, layers and swap belong to the installed package
SHARED = (
    "activation.py",
    "eager.py",
    "functional.py",
    "gradients.py",
    "ops.py",
    "parallel.py",
    "paths.py",
    "plan.py",
    "recorded.py",
    "reference.py",
    "schedule.py",
    "weights.py",
    "kernels/*.py",
    "tuning/__init__.py",
    "tuning/table.py",
    "tuning/*.json",
)

_OPS = '''"""The namespace of this build's operators."""

from __future__ import annotations

NAMESPACE = "{namespace}"


def add_op_namespace_prefix(op_name: str) -> str:
    """``op_name`` qualified with the namespace that this build registers its operators under."""
    return f"{{NAMESPACE}}::{{op_name}}"
'''


def contents() -> dict[str, str]:
    """Every file of the package but its ``_ops.py``, by path."""
    files = {
        path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
        for pattern in SHARED
        for path in sorted(SOURCE.glob(pattern))
    }
    return files | {p.name: p.read_text(encoding="utf-8") for p in sorted(EXTENSION.glob("*.py"))}


def build(out: Path) -> tuple[Path, ...]:
    """Write every variant under ``out``, over an earlier build, and return their folders."""
    files = contents()
    digest = hashlib.sha256("".join(f"{k}\0{v}\0" for k, v in sorted(files.items())).encode()).hexdigest()[:8]
    variants = []
    for backend in BACKENDS:
        folder = out / "build" / f"torch-{backend}"
        shutil.rmtree(folder, ignore_errors=True)
        unique = f"_{NAME.replace('-', '_')}_{backend}_{digest}"
        metadata = {
            "id": unique,
            "name": NAME,
            "version": VERSION,
            "license": "Apache-2.0",
            "python-depends": [],
            "backend": {"type": backend},
        }
        extra = {"_ops.py": _OPS.format(namespace=unique), "metadata.json": json.dumps(metadata, indent=2) + "\n"}
        for name, text in (files | extra).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        variants.append(folder)
    return tuple(variants)


def main() -> None:
    """Build, and say where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE)
    for variant in build(parser.parse_args().out):
        print(variant)  # noqa: T201 - a command's answer


if __name__ == "__main__":
    main()
