"""Whose machine this was: names of hosts and users, from the machine itself and from what a trace says of its own."""

from __future__ import annotations

import getpass
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST, USER = "[host]", "[user]"

HOST_KEY = re.compile(
    r"(?i)(?:.*[^a-z])?(?:host_?name|host|fqdn|node_?name|computer_?name|worker_?name|master_addr|.*_host)"
)
USER_KEY = re.compile(r"(?i)(?:.*[^a-z])?(?:user_?name|user|logname|login|e_?mail|author|real_?name|uid_?name)")
"""Whole keys whose text is the name of a host, and of a user."""

_IN_PATH = re.compile(r"(?i)(?:/home/|/users/|[a-z]:\\users\\|[a-z]:\\\\users\\\\|torchinductor_)([^/\\\s:\"'<>|]+)")
_HOMES = re.compile(rb"/(?:home|Users)/([^/\\\s:\"'<>|]{3,64})(?=[/\"\\])")
_SHORTEST = 3
_EVERYBODY = re.compile(
    r"root|users?|admin(?:istrator)?|ubuntu|debian|centos|ec2-user|runner|jovyan|nobody|docker|python\d?|guest|local(?:host"
    r"|domain)|host|node|worker|master|default|shared|public|home|none|null|true|false|tests?|linux|windows|cuda|torch"
    r"|triton|model|train|runtime|kernel|device|[cg]pu",
    re.IGNORECASE,
)
"""Names that say nothing of whose machine it was, or that traces are full of."""


@dataclass(slots=True)
class Names:
    """Words to hide wherever they stand alone, each with what stands for it."""

    words: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_this_machine(cls) -> Names:
        """Its host name, whole and short, and the user's."""
        names = cls()
        for host in (socket.gethostname(), socket.gethostname().partition(".")[0]):
            names.add(host, HOST)
        with suppress(KeyError, OSError):  # the password file may not have this user
            names.add(getpass.getuser(), USER)
        names.add(Path.home().name, USER)
        return names

    def add(self, word: str, stands_for: str) -> None:
        """Hide ``word`` from now on, unless everybody has that name."""
        if len(word) >= _SHORTEST and not _EVERYBODY.fullmatch(word) and not word.isdigit() and len(word.split()) == 1:
            self.words.setdefault(word, stands_for)

    def learn(self, value: Any) -> None:  # noqa: ANN401 - the JSON edge
        """Collect the hosts and users that a tree of metadata names: under such keys, and in paths of homes."""
        for key, text in _texts(value, ""):
            if "\n" not in text and HOST_KEY.fullmatch(key):
                self.add(text, HOST)
                self.add(text.partition(".")[0], HOST)
            elif "\n" not in text and USER_KEY.fullmatch(key):
                self.add(text.partition("@")[0], USER)
            for user in _IN_PATH.findall(text):
                self.add(user, USER)

    def learn_homes(self, data: bytes) -> None:
        """Collect the users whose home directories are named anywhere in a file."""
        for user in set(_HOMES.findall(data)):
            self.add(user.decode("utf-8", "replace"), USER)

    def pattern(self) -> re.Pattern[str] | None:
        """Any of the words, longest first, outside of longer words and of C++ and ATen scopes; ``None`` for none."""
        if not self.words:
            return None
        return re.compile("|".join(_alone(word) for word in sorted(self.words, key=len, reverse=True)))


def _alone(word: str) -> str:
    # `max` may be a user and is a part of kernels' names; `gpu-node-7` is a host in `gpu-node-7_4711` too
    edge = r"\w" if word.isalpha() else "A-Za-z0-9"
    return rf"(?<![{edge}<])(?<!::){re.escape(word)}(?![{edge}>]|::)"


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - the JSON edge
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
