"""What a secret looks like: the shapes of access tokens, and the names under which secrets are kept.

Shapes follow the issuers' own documentation and the public rules of secret scanners. Lengths are a little below the
true ones: a fragment of a token is a leak too, and a kernel's name almost never has sixteen letters after ``hf_``.
"""

from __future__ import annotations

import re

TOKEN, SECRET, CREDENTIALS = "[token]", "[secret]", "[credentials]"

_ALONE = r"(?<![A-Za-z0-9])"
_SHAPES = (
    r"hf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{16,}",
    r"gl(?:pat|dt|ptt|rt|oas|soat|ft|cbt|imt|agent)-[A-Za-z0-9_.-]{16,}",  # GitLab
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{30,}",  # Google
    r"ya29\.[A-Za-z0-9_.-]{16,}",
    r"xox[a-z]-[A-Za-z0-9-]{10,}",  # Slack
    r"xapp-[A-Za-z0-9-]{16,}",
    r"(?:sk|rk|pk)[-_](?:live|test|proj|ant|or|lf)[-_][A-Za-z0-9_-]{12,}",  # Stripe, OpenAI, Anthropic…
    r"sk-[A-Za-z0-9_-]{16,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON Web Token
    r"npm_[A-Za-z0-9]{16,}",
    r"pypi-[A-Za-z0-9_-]{16,}",
    r"dckr_pat_[A-Za-z0-9_-]{16,}",
    r"dop_v1_[a-f0-9]{16,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    # an AWS secret key has no prefix: forty characters of base64 in both cases, which no path and no hash looks like
    r"(?<![\w/+.-])(?!/)(?=[a-z0-9/+]*[A-Z])(?=[A-Z0-9/+]*[a-z])(?=[A-Za-z/+]*[0-9])[A-Za-z0-9/+]{40}(?![\w/+=.-])",
)
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
)

TOKENS = re.compile(f"{_PRIVATE_KEY}|{_ALONE}(?:{'|'.join(_SHAPES)})", re.DOTALL)
"""Whole tokens and private keys, wherever they stand."""

BEARER = re.compile(r"(?i)\b(bearer|authorization\W{1,4}(?:basic|token|digest))(\s+)[\w.~+/=:-]{6,}")
URL_CREDENTIALS = re.compile(r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/@\"'<>]+@")
URL_SIGNATURE = re.compile(
    r"(?i)([?&;](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|signature|sig|token"
    r"|access_token|api_?key|auth|password|key-pair-id|policy)=)[^\s&#\"'<>]+"
)

_PARTS = (
    r"(?:token|secrets?|passw(?:or)?d|passphrase|pwd|credentials?|bearer|authorization|cookie|api[_-]?key|auth[_-]?key"
    r"|(?:access|private|secret|signing|account|encryption|license|ssh)[_-]?key(?:[_-]?id)?)"
)
SECRET_NAME = re.compile(rf"(?i)(?:.*[^A-Za-z])?{_PARTS}(?:_?(?:id|value|str|string|b64|base64|hash|\d+))?")
"""A whole key or variable under which a secret is kept (``HF_TOKEN``, ``api-key``); ``num_tokens`` is none."""

_NAME = rf"(?:[A-Za-z0-9]+[_.-])*{_PARTS}(?:[_.-][A-Za-z0-9]+)*"
_VALUE = r"([^\s\"',;&})\]\\]+)"
ASSIGNMENT = re.compile(
    rf"(?i)(?:(?<![A-Za-z0-9_.-])(-{{0,2}}{_NAME})(\\?[\"']?\s*(?:=>?|:(?!:))\s*\\?[\"']?)"
    rf"|(?<![\w-])(--{_NAME})([\"',]*\s+\\?[\"']?)){_VALUE}"
)
"""``NAME=value``, ``name: value`` and ``--name value`` of such names: name and sign of either form, then the value."""

HARMLESS_VALUE = re.compile(r"(?i)-?\d{1,12}(?:\.\d+)?|true|false|none|null|\[[a-z ]+\]?|")
"""Numbers, booleans and what was redacted already, which no token is."""


def camel_to_snake(name: str) -> str:
    """``accessToken`` → ``access_Token``, so that `SECRET_NAME` sees the parts of a name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
