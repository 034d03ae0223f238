"""The namespace of this package's operators; a build for the Hub replaces this file with the Hub's own."""

from __future__ import annotations

NAMESPACE = "foretrace"


def add_op_namespace_prefix(op_name: str) -> str:
    """``op_name`` qualified with the namespace that this package registers its operators under."""
    return f"{NAMESPACE}::{op_name}"
