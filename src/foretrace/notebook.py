"""foretrace in notebooks: runs, comparisons and guesses show themselves, and become data frames.

Inside IPython ``import foretrace`` is enough; ``%load_ext foretrace.notebook`` does it where IPython was started later.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from foretrace.errors import InputError, MissingDependencyError
from foretrace.report.shown import SHOWN, document_of

if TYPE_CHECKING:
    from foretrace.diff import Diff
    from foretrace.run import Run
    from foretrace.verdict import Guess

_STYLE = (
    "<style>.foretrace{max-width:60rem}.foretrace h1{font-size:1.2em}.foretrace h2{font-size:1.05em}"
    ".foretrace th,.foretrace td{text-align:left;padding:.15em .7em}.foretrace .number{text-align:right}"
    ".foretrace caption{text-align:left;font-weight:600}.foretrace dt{font-weight:600}.foretrace .more{opacity:.7}"
    "</style>"
)
_FRAME_HEIGHT = 900


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401 - IPython's shell
    """What ``%load_ext foretrace.notebook`` calls."""
    formatters = shell.display_formatter.formatters
    for module, name in SHOWN:
        formatters["text/html"].for_type_by_name(module, name, _as_html)
        formatters["text/plain"].for_type_by_name(module, name, _as_text)


def register() -> None:
    """Do so where IPython is running; nothing otherwise."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is not None:
        load_ipython_extension(shell)


def page(run: Run) -> Any:  # noqa: ANN401 - what IPython displays
    """The whole page of a run, with its timeline, in a frame of its own; its 0.1 to 0.6 MB stay in the notebook.

    Raises:
        MissingDependencyError: IPython is not installed.
    """
    from foretrace.readings import ask  # noqa: PLC0415 - importing foretrace in IPython stays quick
    from foretrace.render.html import tag  # noqa: PLC0415 - as above
    from foretrace.render.to_html import to_html  # noqa: PLC0415 - as above
    from foretrace.report.page import page_of  # noqa: PLC0415 - as above

    display = _imported("IPython.display")
    if display is None:
        raise MissingDependencyError("the page of a run is shown by IPython", hint="pip install ipython")
    html = to_html(document_of(run), page_of(run, ask(run)))
    frame = tag("iframe", srcdoc=html, width="100%", height=_FRAME_HEIGHT, title="foretrace", frameborder=0)
    return display.HTML(tag("div", frame))


def to_frame(what: Run | Diff | Guess) -> Any:  # noqa: ANN401 - a data frame of polars or of pandas
    """A data frame: an activity of a run, a change of a comparison or a kernel of a guess a row.

    Columns of a run: ``step``, ``kind``, ``name``, ``kernel`` (the decoded name in short), ``op_class``, ``device``,
    ``stream``, ``start_ns``, ``dur_ns``, ``op``, ``module``, ``region``, ``launch``, ``graph``, ``flops``, ``bytes``,
    ``bound``, ``event`` (position in ``traceEvents``). Those of a comparison and of a guess are their records' fields.
    Unknown is null. With polars installed it is a `polars.DataFrame`, else a `pandas.DataFrame`.

    Raises:
        InputError: ``what`` is none of them.
        MissingDependencyError: Neither polars nor pandas is installed.
    """
    from foretrace.diff import Diff  # noqa: PLC0415 - importing foretrace in IPython stays quick
    from foretrace.report.columns import columns_of_changes, columns_of_guess, columns_of_run  # noqa: PLC0415 - as above
    from foretrace.run import Run  # noqa: PLC0415 - as above
    from foretrace.verdict import Guess  # noqa: PLC0415 - as above

    match what:
        case Run():
            columns = columns_of_run(what)
        case Diff():
            columns = columns_of_changes(what)
        case Guess():
            columns = columns_of_guess(what)
        case _:
            raise InputError(f"no data frame of a `{type(what).__name__}`", hint="give a run, a comparison or a guess")
    if (polars := _imported("polars")) is not None:
        return polars.DataFrame(columns, strict=False)
    if (pandas := _imported("pandas")) is not None:
        return pandas.DataFrame(columns).convert_dtypes()
    raise MissingDependencyError("data frames need polars or pandas", hint="pip install polars")


def _imported(name: str) -> Any:  # noqa: ANN401 - a module, or None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _as_html(what: Any) -> str:  # noqa: ANN401 - one of `SHOWN`
    from foretrace.render.to_html import to_fragment  # noqa: PLC0415 - loaded when something is shown

    return f'{_STYLE}<div class="foretrace">{to_fragment(document_of(what))}</div>'


def _as_text(what: Any, printer: Any, cycle: bool) -> None:  # noqa: ANN401, FBT001 - IPython's signature
    from foretrace.render.to_terminal import to_terminal  # noqa: PLC0415 - loaded when something is shown

    del cycle
    printer.text(to_terminal(document_of(what)).rstrip("\n"))
