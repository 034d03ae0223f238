"""The tree of commands, and the one place where an error becomes text and an exit code.

To add a command, write ``cli/NAME.py`` with one function: its parameters are the arguments and flags, its docstring is
the help, it returns ``None`` or an exit code and raises `ForetraceError` for what a person can mend. A command that
prints a report takes ``*, out: Output = STDOUT``, calls ``out.check()`` before any work and ``out.emit(document,
record)`` at the end. Then add one line to `COMMANDS`; the module is imported when the command runs, so it may import
what it needs at its top.
"""

from __future__ import annotations

import codecs
import difflib
import errno
import os
import sys
from typing import TYPE_CHECKING, Any

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnusedCliTokensError

from foretrace import __version__
from foretrace.errors import ForetraceError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = (
    ("ladder", "foretrace.cli.ladder:ladder", "Walk the road from nn.Linear to a fused MLP, live or recorded."),
    ("profile", "foretrace.cli.profile:profile", "Profile a module in several variants, or a script as it is."),
    ("read", "foretrace.cli.read:read", "Read a profiler trace in words."),
    ("diff", "foretrace.cli.diff:diff", "Say what changed between two traces, and whether it was worth it."),
    ("fleet", "foretrace.cli.fleet:fleet", "Read the traces of many ranks together: who waits for whom."),
    ("share", "foretrace.cli.share:share", "Share traces through a Hugging Face bucket, with links into Perfetto."),
    ("open", "foretrace.cli.open:open_trace", "Open a trace in Perfetto on this machine."),
    ("redact", "foretrace.cli.redact:redact", "Write a copy of a trace without what is private in it."),
    ("guess", "foretrace.cli.guess:guess", "Predict the kernels of a module without a GPU."),
    ("check", "foretrace.cli.check:check", "Hold a guess against a trace; exit with 1 when it is broken."),
    ("kernel", "foretrace.cli.kernel:kernel", "Say what the name of a GPU kernel says."),
    ("fuse", "foretrace.cli.fuse:fuse", "Say which modules the fused layers can replace, and what that buys."),
    ("tune", "foretrace.cli.tune:tune", "Measure the fused layers' paths on this GPU, into a table of your own."),
    ("explain", "foretrace.cli.explain:explain", "Explain a term: epilogue, split-K, guard, roofline…"),
    ("devices", "foretrace.cli.devices:devices", "List the ceilings of known devices, with their sources."),
)
"""Name, where it is, and its line in ``foretrace --help``, in the order shown."""


def _worth_a_word(default: Any) -> Any:  # noqa: ANN401 - any parameter's default; None hides it in the help
    return str(default) if default else None


DEFAULTS = Parameter(negative="", show_default=_worth_a_word)
"""For every parameter: a flag has no ``--no-flag`` twin, and "off" or "none" is not shown as a default."""

_INTERRUPTED = 130
_STDIN, _STDOUT = "/dev/stdin", "/dev/stdout"
_TAKE_TRACES = {"read", "diff", "fleet", "open", "redact", "check"}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_ASCII = str.maketrans({**dict(zip("µ×·–−²└─│╭╮╰╯", "ux---2+-|++++", strict=True)), "→": "->", "…": "...", "≪": "<<"})
"""The nearest ASCII for the signs that foretrace itself writes."""


def app(command: str | None = None) -> App:
    """The command line, with every command still unloaded.

    Args:
        command: The one that is about to run: its help is its docstring, not its line in the list.
    """
    tree = App(
        name="foretrace",
        help="Guess first, then look: PyTorch performance in words, from code to kernel.",
        version=__version__,
        result_action="return_value",
        # Markdown costs 50 ms: well spent on one command's paragraphs, not on the list of commands
        help_format="markdown" if command in {name for name, _, _ in COMMANDS} else "plaintext",
        suppress_keyboard_interrupt=False,
        default_parameter=DEFAULTS,
    )
    for position, (name, where, line) in enumerate(COMMANDS):
        tree.command(where, name=name, help=None if name == command else line, sort_key=position)
    return tree


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code: 0 done, 1 something broken, 2 wrong input, 3 partial input."""
    _never_fail_to_encode()
    try:
        words = _piped(sys.argv[1:] if argv is None else argv)
        result = app(words[0] if words else None)(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(_usage(error))
    except ForetraceError as error:
        return _complain(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # `… | head`: the reader has what it wanted
        _drop_stdout()
        return 0
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _drop_stdout()
        return _complain(InputError(f"cannot write to stdout: {error.strerror}", hint="`-o FILE` writes elsewhere"))
    return result if isinstance(result, int) else 0


def _piped(words: Sequence[str]) -> Sequence[str]:
    """``-`` for a trace is what comes through the pipe, and behind ``-o`` what goes into one."""
    if "-" not in words or words[0] not in _TAKE_TRACES or not os.path.exists(_STDIN):  # noqa: PTH110 - imports nothing
        return words
    own = words.index("--") if "--" in words else len(words)  # what follows is a target's
    pairs = zip(["", *words], words[:own], strict=False)
    return [*(_pipe(last) if word == "-" else word for last, word in pairs), *words[own:]]


def _pipe(last: str) -> str:
    return _STDOUT if last in ("-o", "--output") else _STDIN


def _drop_stdout() -> None:
    """What could not be written must not be tried again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: CycloptsError) -> InputError:
    if isinstance(error, UnknownCommandError):  # its own text would import every command to suggest one
        return _unknown(error.unused_tokens or [""])
    chain = " ".join(["foretrace", *(error.command_chain or ())])
    if isinstance(error, UnusedCliTokensError):
        text = f"too many arguments: {' '.join(f'`{token}`' for token in error.unused_tokens or ())}"
    else:
        text = " ".join(str(error).split()).removesuffix(".")
    return InputError(text[:1].lower() + text[1:], hint=f"`{chain} --help` shows what it takes")


def _unknown(tokens: Sequence[str]) -> InputError:
    names = [name for name, _, _ in COMMANDS]
    near = difflib.get_close_matches(tokens[0], names, n=1)
    if ".py" in tokens[0]:
        near = [f"profile {_quoted(tokens[0])}"]
    elif tokens[0].endswith((".json", ".gz", ".zip")):
        near = [f"read {_quoted(tokens[0])}"]
    hint = f"did you mean `foretrace {near[0]}`?" if near else f"commands are {', '.join(names)}"
    return InputError(f"no command `{tokens[0]}`", hint=hint)


def _quoted(word: str) -> str:
    import shlex  # noqa: PLC0415 - needed only when something is wrong

    return shlex.quote(word)


def _complain(error: ForetraceError) -> int:
    from foretrace.render.safe import visible  # noqa: PLC0415 - needed only when something is wrong

    hint = f"\n\nhint: {visible(error.hint)}" if error.hint else ""
    sys.stderr.write(f"error: {visible(error.message)}{hint}\n")
    return error.exit_code


def _never_fail_to_encode() -> None:
    """Consoles that know only some characters get the nearest ASCII, or ``?``."""

    def nearest(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        lost = error.object[error.start : error.end].translate(_ASCII)
        return lost.encode("ascii", "replace").decode("ascii"), error.end

    codecs.register_error("foretrace", nearest)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="foretrace")
