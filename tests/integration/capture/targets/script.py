"""A script that does one product and leaves with the status that it is given."""

import sys

import torch

left = torch.ones(4, 4)
print(torch.mm(left, left).sum().item(), sys.argv[1:])  # noqa: T201 - a script talks
if __name__ == "__main__" and len(sys.argv) > 1:
    sys.exit(int(sys.argv[1]))
