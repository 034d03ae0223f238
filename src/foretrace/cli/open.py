"""``foretrace open``."""

from __future__ import annotations

import sys
import webbrowser

from foretrace.cli.load import load
from foretrace.errors import InputError
from foretrace.render.safe import visible
from foretrace.share import perfetto as links
from foretrace.share.local import PORT, TraceServer, origin_of, sound_file


def open_trace(
    trace: str,
    *,
    kernel: str | None = None,
    step: int | None = None,
    no_browser: bool = False,
    port: int = PORT,
    perfetto: str = links.PERFETTO,
) -> None:
    """Open a trace in Perfetto without uploading it anywhere.

    The trace is served from this machine to Perfetto's page in your browser, once, and stays there. A malformed trace
    is served in its repaired form.

    Args:
        trace: The trace.
        kernel: Open on the longest kernel of this name, or with this in its name, and list all of them.
        step: Open on the step with this number, as in `ProfilerStep#N`.
        no_browser: Print the address only.
        port: Where to serve it. Perfetto's own page reads from 9001 only.
        perfetto: Address of the page, for a Perfetto of your own.
    """
    if kernel is not None and step is not None:
        raise InputError("`--kernel` and `--step` were both given", hint="open on one of them")
    origin = origin_of(perfetto)
    focus = _focus(trace, kernel, step)
    with sound_file(trace) as (path, notes), TraceServer(path, origin=origin, port=port) as server:
        for note in notes:
            sys.stderr.write(f"note: {visible(note.text)}\n")
        link = links.link(server.url, focus, perfetto=perfetto)
        sys.stdout.write(f"{link}\n")
        sys.stdout.flush()
        opened = not no_browser and webbrowser.open(link)
        sys.stderr.write(f"{'opened' if opened else 'open it'} in the browser of this machine; Ctrl-C stops serving\n")
        server.until_fetched()
        sys.stderr.write("fetched: the trace is in the browser now, and nothing is served any more\n")


def _focus(trace: str, kernel: str | None, step: int | None) -> links.Focus | None:
    if kernel is None and step is None:
        return None
    run = load(trace)
    return links.kernel(run, kernel) if kernel is not None else links.step(run, step or 0)
