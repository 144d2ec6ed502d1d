"""The library's own secrets, from a variable or from the secret that a variable names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.environment import environment
from oncekey.errors import ConfigurationError
from oncekey.store import in_use

if TYPE_CHECKING:
    from oncekey.clock import Clock

_NAMED = "_ARN"


def secret_words(variable: str, clock: Clock | None = None) -> list[bytes]:
    """The words of `variable`, or of the Secrets Manager secret that `<variable>_ARN` names.

    A secret in Secrets Manager is read at run time. So neither a template nor a function's
    configuration contains it, and a rotated secret is used within minutes.

    Raises:
        ConfigurationError: both variables are set, or the secret is JSON.
        StoreError: the secret cannot be read now.
    """
    variables = environment().variables
    text = variables.get(variable, "")
    name = variables.get(variable + _NAMED, "").strip()
    if not name:
        return _words(text)
    if text.strip():
        fault = f"it is set, and so is {variable}{_NAMED}: leave one of the two out"
        raise ConfigurationError(variable, [fault])
    from oncekey.store.secrets_manager import secret_text

    text = secret_text(name, in_use.clock_or(clock).now_ms())
    if text.lstrip().startswith("{"):
        fault = (
            "the secret that it names is JSON: store its value alone as plain text, of several the"
            " newest first, between white space"
        )
        raise ConfigurationError(variable + _NAMED, [fault])
    return _words(text)


def _words(text: str) -> list[bytes]:
    return [word.encode("utf-8", "surrogateescape") for word in text.split()]
