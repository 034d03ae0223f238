# /// script
# requires-python = ">=3.11"
# dependencies = ["foretrace[torch,hub,liger]"]
#
# [tool.uv.sources]
# foretrace = { path = "..", editable = true }
# ///
"""The GeGLU MLP around a hand-tuned kernel: guess four kernels and no compiler, then look. Needs a GPU.

uv run 03_kernels_mlp.py --batch 64 --seq 128 --dim 768 --hidden 3072
"""

from __future__ import annotations

import argparse
import sys

import torch

import foretrace
from foretrace.ladder.models import liger


def main() -> None:
    """Profile the forward and print the reading."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: Liger's kernels need a GPU\n\nhint: foretrace ladder mlp --recorded")

    mlp, (x,) = liger(device="cuda", **vars(arguments))
    with torch.no_grad(), foretrace.profile("mlp_liger", region="mlp_fwd", modules=mlp, force=True) as session:
        for _ in session.steps():
            mlp(x)
    print(foretrace.in_words(foretrace.read(session.files.trace)))


if __name__ == "__main__":
    main()
