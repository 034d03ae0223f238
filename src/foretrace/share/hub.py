"""The Hugging Face Hub through its own client, with its failures as errors that say what to do."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from foretrace.errors import ForetraceError, InputError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

TOKENS_PAGE = "https://huggingface.co/settings/tokens"
LOGIN_HINT = f"`hf auth login`, or put a token with write access in HF_TOKEN ({TOKENS_PAGE})"
_AGAIN = "run the same command again: what arrived is not sent twice"
_SERVER = 500


class HubError(ForetraceError):
    """The Hub could not be asked, or refused."""


def connect() -> HfApi:
    """The client, which finds its endpoint and token as `hf` does (``HF_ENDPOINT``, ``HF_TOKEN``, ``hf auth login``).

    Raises:
        MissingDependencyError: huggingface_hub is not installed, or older than its buckets and jobs.
    """
    try:
        import hf_xet  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - an extra
        import huggingface_hub  # noqa: PLC0415 - an extra, and a second to import

        api = huggingface_hub.HfApi(library_name="foretrace")
    except ImportError:
        raise MissingDependencyError(
            "the Hub's client is not installed", hint="`pip install 'foretrace[hub]'`"
        ) from None
    if not hasattr(api, "batch_bucket_files") or not hasattr(api, "run_job"):
        raise MissingDependencyError(
            f"huggingface_hub {huggingface_hub.__version__} knows no buckets", hint="`pip install -U huggingface_hub`"
        )
    return api


def logged_in(api: HfApi) -> bool:
    """Whether the client has a token; whether the Hub accepts it is not asked."""
    from huggingface_hub import get_token  # noqa: PLC0415 - an extra

    return bool(api.token or get_token())


def whoami(api: HfApi) -> str:
    """The name of the logged-in user.

    Raises:
        InputError: Nobody is logged in.
        HubError: The Hub could not be asked, or refused the token.
    """
    with speaking("who you are"):
        return str(api.whoami()["name"])


@contextmanager
def speaking(of: str) -> Iterator[None]:
    """Turn the failures of the client, while it asks the Hub for ``of``, into one error each.

    Raises:
        InputError: Nobody is logged in, or a name is not one that the Hub allows.
        HubError: The Hub could not be asked, or refused.
    """
    from hf_xet import XetAuthenticationError  # noqa: PLC0415 - comes with the Hub's client
    from huggingface_hub import errors  # noqa: PLC0415 - an extra

    try:
        with _quiet():
            yield
    except errors.LocalTokenNotFoundError:
        raise InputError("nobody is logged in to the Hugging Face Hub", hint=LOGIN_HINT) from None
    except errors.HfHubHTTPError as error:
        raise _refused(error, of) from error
    except XetAuthenticationError as error:
        raise HubError(f"the Hub's storage refused the token for {of}", hint=LOGIN_HINT) from error
    except (errors.HTTPError, OSError, RuntimeError) as error:  # type: ignore[attr-defined]  # the transport's own
        raise HubError(f"the connection to the Hub failed: {of}: {_first_line(error)}", hint=_AGAIN) from error
    except ValueError as error:  # a name that breaks the Hub's rules
        raise InputError(_first_line(error), hint="a bucket is named `namespace/name`") from error


def _refused(error: HfHubHTTPError, of: str) -> HubError:
    status = error.response.status_code
    wait = error.response.headers.get("Retry-After")
    known = {
        401: (f"the Hub does not accept this token (401): {of}", LOGIN_HINT),
        402: (f"the Hub asks for payment (402): {of}", "https://huggingface.co/settings/billing"),
        403: (
            f"this token may not do that (403): {of}",
            f"use a token with write access there ({TOKENS_PAGE}), or another namespace with `-n`",
        ),
        404: (f"not found on the Hub (404): {of}", "check the names; what is private is also not found"),
        429: (
            f"the Hub asks for patience (429): {of}",
            f"wait {f'{wait} s' if wait else 'a few minutes'}, then {_AGAIN}",
        ),
    }
    if status in known:
        message, hint = known[status]
        return HubError(message, hint=hint)
    if status >= _SERVER:
        return HubError(f"the Hub has a problem of its own ({status}): {of}", hint=_AGAIN)
    return HubError(f"the Hub refused ({status}): {of}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _quiet() -> Iterator[None]:
    """The client's own bars, warnings and plans kept off the terminal: foretrace says what happens."""
    from huggingface_hub.utils.tqdm import (  # noqa: PLC0415 - an extra
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    logger = logging.getLogger("huggingface_hub")
    level, shown = logger.level, not are_progress_bars_disabled()
    logger.setLevel(logging.ERROR)
    if shown:
        disable_progress_bars()
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
        if shown:
            enable_progress_bars()
