"""Texts and trees of JSON without what is private in them: tokens, environment, hosts, users, paths, stacks.

Only texts change, and never a number: times, ids and shapes stay as they were. The same text always becomes the same
text, so that events which belong together still do.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from foretrace.share import secrets
from foretrace.share.names import HOST, HOST_KEY, USER, USER_KEY, Names
from foretrace.share.paths import ABSOLUTE, IN_MARKUP, shorten
from foretrace.units import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENVIRONMENT, ADDRESS, STACK, FRAME = "[environment]", "[address]", "[stack]", "[python frame]"

_KINDS = {
    "token": ("token or secret", "tokens or secrets"),
    "environment": ("environment variable", None),
    "host": ("host name", None),
    "user": ("user name", None),
    "path": ("absolute path", None),
    "stack": ("Python frame", None),
}
"""What is counted, in the order in which it is told."""

_ENVIRONMENT_KEY = re.compile(r"(?i)(?:.*[^a-z])?(?:env|envs|environ|environment|env_?vars?|environment_?variables?)")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_HARMLESS_VARIABLE = re.compile(
    r"(?:CUDA|CUBLAS|CUDNN|NVIDIA|NVTE|HIP|ROCR|HSA|MIOPEN|OMP|MKL|KMP|NCCL|RCCL|GLOO|TORCH|TORCHINDUCTOR|INDUCTOR|PYTORCH"
    r"|TRITON|KINETO|XLA|TF32|ATEN|GOMP|OPENBLAS|FORETRACE)_\w+|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE"
)
"""Variables that say how the code ran and not whose it is; their values are still redacted as texts."""
_PRIVATE_VARIABLE = re.compile(
    r"(?<![A-Za-z0-9_])(HOSTNAME|HOST|USER|USERNAME|LOGNAME|HOME|PWD|OLDPWD|MAIL|MASTER_ADDR|SSH_CLIENT|SSH_CONNECTION"
    r"|SLURM\w*|KUBERNETES\w*)(\s*=\s*\\?[\"']?)([^\s\"',;&\\]+)"
)
_E_MAIL = re.compile(r"(?<![\w.+/@-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_PRIVATE_ADDRESS = re.compile(
    r"(?<![\w.])(?:10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})(?![\w.]*\w)"
)
_INTERNAL_HOST = re.compile(
    r"(?<![\w.-])(?:ip-\d+-\d+-\d+-\d+(?:\.[\w-]+)*|[\w-]+(?:\.[\w-]+)*\.(?:internal|lan|corp|intranet|localdomain)"
    r"|[a-z][a-z0-9]*-[\w-]*\d[\w-]*(?:\.[\w-]+)*\.local)(?![\w-])"
)
"""Names that are hosts' whoever has them: of clouds and of networks without a name in public."""
_ENCODED_SLASH = re.compile(r"(?i)%(?:25){0,3}(?:2f|5c)")  # encoded up to four times over
_ENCODED = re.compile(r"(?:%[0-9A-Fa-f]{2}|[\w.~+@-])++")
"""A run of percent-encoded text: what is private in it is seen when it is decoded."""
_STACK_KEYS = frozenset({"Call stack", "Call Stack", "call_stack", "Python stack", "python_stack", "stack", "Stack"})
_FRAME_CATEGORY, _MODULE = "python_function", "nn.Module: "
_LONGEST_KEY = 100
"""Characters; kernels have longer names, and no key that matters has."""

_decode = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode
_LITERAL = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_MOST_KNOWN = 200_000


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is looked for, what it becomes, as what it counts; a text without any of ``needs`` cannot have it."""

    kind: str
    pattern: re.Pattern[str]
    by: str
    needs: tuple[str, ...]


_RULES = (
    _Rule("token", secrets.TOKENS, secrets.TOKEN, ("",)),
    _Rule("token", secrets.BEARER, rf"\1\2{secrets.TOKEN}", (" ", "\t")),
    _Rule("token", secrets.URL_CREDENTIALS, rf"\1{secrets.CREDENTIALS}@", ("://",)),
    _Rule("token", secrets.URL_SIGNATURE, rf"\1{secrets.SECRET}", ("=",)),
    _Rule("environment", _PRIVATE_VARIABLE, rf"\1\2{ENVIRONMENT}", ("=",)),
    _Rule("user", _E_MAIL, USER, ("@",)),
    _Rule("host", _PRIVATE_ADDRESS, ADDRESS, ("10.", "192.168.", "172.")),
    _Rule("host", _INTERNAL_HOST, HOST, ("ip-", ".internal", ".l", ".corp", ".intranet")),
)
"""In the order in which they are applied to a text."""


class Redactor:
    """Redacts texts, trees and pieces of a file, and counts what it removed.

    Args:
        names: Hosts and users to hide; those of this machine unless given.
        stacks: Whether Python stacks go too: the names of frames, and the arguments that hold whole stacks.

    Attributes:
        counts: What was removed: ``token``, ``environment``, ``host``, ``user``, ``path``, ``stack``.
    """

    def __init__(self, names: Names | None = None, *, stacks: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self._names = Names.of_this_machine() if names is None else names
        self._hidden = self._names.pattern()
        self._stacks = stacks
        self._home = str(Path.home())
        self._known: dict[str, tuple[str, Counter[str]]] = {}
        self._sound: set[bytes] = set()

    def learn(self, metadata: Any, data: bytes = b"") -> None:  # noqa: ANN401 - the JSON edge
        """Hide from now on also the hosts and users that ``metadata`` names, and whose homes ``data`` names."""
        self._names.learn(metadata)
        self._names.learn_homes(data)
        self._hidden = self._names.pattern()
        self._known.clear()
        self._sound.clear()

    def text(self, text: str) -> str:
        """``text`` without tokens, credentials, private names and absolute paths."""
        known = self._known.get(text)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            counts: Counter[str] = Counter()
            hidden = self._hide(text, counts)
            known = self._known[text] = (hidden, +counts)
        if known[1]:
            self.counts.update(known[1])
        return known[0]

    def markup(self, text: str) -> str:
        """The same for HTML, where only paths below well-known directories are taken for paths."""
        return self._hide(text, self.counts, paths=IN_MARKUP)

    def tree(self, value: Any, key: str = "") -> Any:  # noqa: ANN401 - the JSON edge
        """A decoded JSON value with every text in it redacted, keys too; a key says what its value is."""
        if isinstance(value, str):
            return self._value(value, key)
        if isinstance(value, list):
            return [self.tree(item, _flag(last) or key) for last, item in zip(["", *value], value, strict=False)]
        if isinstance(value, dict):
            said = _said_by(key)
            if said is not None and said.kind == "environment":
                return {self.text(name): self._variable(name, item) for name, item in value.items()}
            if value.get("cat") == _FRAME_CATEGORY and self._stacks and isinstance(value.get("name"), str):
                value = {**value, "name": self._frame(value["name"])}
            return {self.text(name): self.tree(item, name) for name, item in value.items()}
        return value

    def piece(self, piece: bytes) -> bytes:
        """Some events of a file, ``{…},{…}`` in sound JSON, redacted; the very same bytes when nothing is private."""
        literals = set(_LITERAL.findall(piece)) - self._sound
        before = self.counts.copy()
        private = {literal for literal in literals if not self._is_sound(_decode(literal))}
        self.counts = before
        self._sound |= literals - private
        if len(self._sound) > _MOST_KNOWN:
            self._sound.clear()
        return msgspec.json.encode(self.tree(_decode(b"[" + piece + b"]")))[1:-1] if private else piece

    def _is_sound(self, text: str) -> bool:
        """Whether ``text`` is neither private itself nor a key or category that makes another text private."""
        return self.text(text) == text and not self._says_private(text)

    def _says_private(self, key: str) -> bool:
        said = _said_by(key)
        return said is not None and (said.kind != "stack" or self._stacks)

    def _value(self, value: str, key: str) -> str:
        said = _said_by(key)
        if said is None or (said.kind == "stack" and not self._stacks) or secrets.HARMLESS_VALUE.fullmatch(value):
            return self.text(value)
        if said.kind != "environment":
            return self._replaced(said.kind, said.by)
        variable = _VARIABLE.fullmatch(value)
        return f"{variable[1]}={self._variable(variable[1], variable[2])}" if variable else self.text(value)

    def _variable(self, name: str, value: Any) -> Any:  # noqa: ANN401 - the JSON edge
        if not isinstance(value, str):
            return self.tree(value, name)
        if not value or (_HARMLESS_VARIABLE.fullmatch(name) and not _is_secret(name)):
            return self.text(value)
        return self._replaced("environment", ENVIRONMENT)

    def _frame(self, name: str) -> str:
        return name if name.startswith(_MODULE) else self._replaced("stack", FRAME)

    def _replaced(self, kind: str, by: str) -> str:
        self.counts[kind] += 1
        return by

    def _hide(self, text: str, counts: Counter[str], paths: re.Pattern[str] = ABSOLUTE) -> str:
        if "%" in text and _ENCODED_SLASH.search(text):
            text = _ENCODED.sub(lambda match: self._encoded(match.group(), counts, paths), text)
        for rule in _RULES:
            if any(part in text for part in rule.needs):
                text, times = rule.pattern.subn(rule.by, text)
                counts[rule.kind] += times
        text = secrets.ASSIGNMENT.sub(lambda match: _assigned(match, counts), text)
        if "/" in text or "\\" in text:
            counts["path"] += sum(shorten(path, self._home) != path for path in paths.findall(text))
            text = paths.sub(lambda match: shorten(match.group(), self._home), text)
        return self._without_names(text, counts)

    def _encoded(self, run: str, counts: Counter[str], paths: re.Pattern[str]) -> str:
        """A percent-encoded text redacted inside; the very same text when nothing in it is private."""
        decoded = unquote(run)
        if decoded == run or not _ENCODED_SLASH.search(run):
            return run
        hidden = self._hide(decoded, counts, paths)
        return run if hidden == decoded else quote(hidden, safe="~[]")

    def _without_names(self, text: str, counts: Counter[str]) -> str:
        if self._hidden is None:
            return text

        def hidden(match: re.Match[str]) -> str:
            by = self._names.words[match.group()]
            counts["host" if by == HOST else "user"] += 1
            return by

        return self._hidden.sub(hidden, text)


def redact_text(text: str) -> str:
    """``text`` without tokens, credentials, private names and absolute paths."""
    return Redactor().text(text)


def redact_tree(value: Any) -> Any:  # noqa: ANN401 - the JSON edge
    """A decoded JSON value with every text in it redacted; it is not changed itself."""
    redactor = Redactor()
    redactor.learn(value)
    return redactor.tree(value)


def removed(counts: Mapping[str, int]) -> str:
    """What was removed, in words: ``2 tokens or secrets, 41 absolute paths``; ``nothing`` for nothing."""
    said = [plural(counts[kind], *noun) for kind, noun in _KINDS.items() if counts.get(kind)]
    return ", ".join(said) or "nothing"


def _is_secret(key: str) -> bool:
    return secrets.SECRET_NAME.fullmatch(secrets.camel_to_snake(key)) is not None


def _is_environment(key: str) -> bool:
    return _ENVIRONMENT_KEY.fullmatch(secrets.camel_to_snake(key)) is not None


@dataclass(frozen=True, slots=True)
class _Key:
    """What a key says of its value: the kind, how such keys are told, and what the value becomes."""

    kind: str
    says: Callable[[str], object]
    by: str


_KEYS = (
    _Key("environment", _is_environment, ENVIRONMENT),
    _Key("stack", (_STACK_KEYS | {_FRAME_CATEGORY}).__contains__, STACK),
    _Key("token", _is_secret, secrets.SECRET),
    _Key("host", HOST_KEY.fullmatch, HOST),
    _Key("user", USER_KEY.fullmatch, USER),
)


def _flag(word: object) -> str:
    """The name that a word of a command line gives to the next one: ``--api-key``."""
    return word if isinstance(word, str) and word.startswith("--") and "=" not in word else ""


@lru_cache(maxsize=1 << 14)
def _said_by(key: str) -> _Key | None:
    """What ``key`` says of its value, or ``None``; a text that is as long as a kernel's name is no key."""
    return next((one for one in _KEYS if one.says(key)), None) if len(key) <= _LONGEST_KEY else None


def _assigned(match: re.Match[str], counts: Counter[str]) -> str:
    *said, value = match.groups(default="")
    if secrets.HARMLESS_VALUE.fullmatch(value):
        return match.group()
    counts["token"] += 1
    return f"{''.join(said)}{secrets.SECRET}"
