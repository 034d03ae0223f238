"""Draw the README's picture: what `foretrace read` shows of the recorded eager MLP.

python tools/picture.py
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from foretrace import ask, read
from foretrace.render.to_terminal import to_terminal
from foretrace.report.overview import overview

ROOT = Path(__file__).resolve().parent.parent
TRACE = Path("tests/data/h200/mlp_64x128x768x3072_eager.json.gz")
COLUMNS = 100


def main() -> None:
    """Write docs/images/read.svg."""
    run = read(ROOT / TRACE)
    page = to_terminal(overview(run, ask(run)), width=COLUMNS, styled=True)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(page))
    title = "foretrace read mlp_eager.json.gz"
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # no fonts from afar
    picture = console.export_svg(title=title, code_format=plain)
    (ROOT / "docs/images/read.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
