"""The articles' road from ``nn.Linear`` to a fused MLP: guess, profile, read, compare; `live` imports torch."""

from __future__ import annotations
