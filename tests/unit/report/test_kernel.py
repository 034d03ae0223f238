"""Decoded names as a page."""

from __future__ import annotations

from foretrace.names import Identity
from foretrace.report.document import Document, Fields, Sentence, Title
from foretrace.report.kernel import kernel_document


def test_the_sentence_comes_first_and_unknown_fields_are_left_out() -> None:
    """Name, words, then the fields that the name says, in the order of the contract."""
    identity = Identity(
        "k", "nvjet", op_class="gemm", tile=(256, 128, None), cluster=(1, 2), align=8, split_k=False,
        fused_ops=("gelu", "mul"), in_words="a GEMM: for this test",
    )  # fmt: skip
    assert kernel_document([identity]) == Document(
        (
            Title("k"),
            Sentence("a GEMM: for this test"),
            Fields(
                (
                    ("family", "nvjet"),
                    ("op class", "gemm"),
                    ("tile", "256×128×–"),
                    ("cluster", "1×2"),
                    ("align", "8 elements"),
                    ("split k", "no"),
                    ("fused ops", "gelu, mul"),
                )
            ),
        )
    )


def test_several_names_follow_each_other() -> None:
    """One part a name, in the order given."""
    titles = [block for block in kernel_document([Identity("b"), Identity("a")]).blocks if isinstance(block, Title)]
    assert titles == [Title("b"), Title("a")]
