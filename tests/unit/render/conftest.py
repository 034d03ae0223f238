"""A document with one block of every kind."""

from __future__ import annotations

import pytest

from foretrace.readings import Column
from foretrace.report.document import Document, Fields, Headline, Item, Listing, Note, Sentence, Table, Title


@pytest.fixture
def document() -> Document:
    """Every kind of block, with names that try to break each medium."""
    columns = (
        Column("kernel", "kernel"),
        Column("time_ns", "µs", "ns"),
        Column("of_limit", "of limit", "share"),
        Column("never", "not known of any row", "share"),
    )
    rows = [
        {"kernel": "elementwise mul", "time_ns": 36_351, "of_limit": 0.8653},
        {
            "kernel": "void evil|kernel<float, 4>\x1b[31m with a name that is far too long for a table",
            "time_ns": 1_280_000,
        },
    ]
    return Document(
        (
            Headline("NVIDIA H200 · 3 steps of mlp_fwd"),
            Note("the file was cut after 93 complete events"),
            Sentence(
                "Overhead-bound while profiled: the GPU works 233 µs of 428 µs a step and waits for the CPU to launch"
                " the rest."
            ),
            Table(columns, rows, title="On the GPU", more="and 4 more: 1.02 µs"),
            Listing("Do first", (Item("Fuse gelu and mul: 21 µs a step."), Item("Pin the input.")), numbered=True),
            Listing("Worth knowing", (Item("18 ops a step launch nothing: 41 µs of CPU.", "--ask metadata"),)),
            Title("Which fields?"),
            Fields((("family", "nvjet"), ("op class", "gemm"))),
        )
    )
