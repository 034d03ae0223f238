"""``foretrace explain``."""

from __future__ import annotations

from foretrace.cli.output import STDOUT, Output
from foretrace.report.explain import explain as look_up
from foretrace.report.explain import explain_document, terms, terms_document


def explain(*term: str, out: Output = STDOUT) -> None:
    """Explain a term of the field in a few sentences, and name the command that shows it.

    Args:
        term: The term, quoted or not: `explain graph break`. Without one, the list of terms.
        out: How and where to show it.
    """
    out.check()
    if not term:
        known = terms()
        out.emit(lambda: terms_document(known), lambda: known)
        return
    found = look_up(" ".join(term))
    out.emit(lambda: explain_document(found), lambda: found)
