# /// script
# requires-python = ">=3.11"
# dependencies = ["foretrace[torch]"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""One ``nn.Linear``: guess one kernel, with the bias in the GEMM's epilogue, then look.

uv run 02_linear.py --batch 1024 --in_dim 32 --out_dim 64 [--compile]
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import foretrace


def main() -> None:
    """Profile the forward and print the reading."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--in_dim", type=int, default=32)
    parser.add_argument("--out_dim", type=int, default=64)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    layer = nn.Linear(arguments.in_dim, arguments.out_dim, bias=True, device=device, dtype=dtype)
    x = torch.randn(arguments.batch, arguments.in_dim, device=device, dtype=dtype)
    forward = torch.compile(layer) if arguments.compile else layer

    name = "linear_compiled" if arguments.compile else "linear_eager"
    with torch.no_grad(), foretrace.profile(name, region="linear_fwd", force=True) as session:
        for _ in session.steps():
            forward(x)
    print(foretrace.in_words(foretrace.read(session.files.trace)))


if __name__ == "__main__":
    main()
