"""The settings of a function from its environment."""

from __future__ import annotations

import os

from oncekey import NotExecuted, StoreError
from oncekey.clock import SystemClock
from oncekey.store.secrets_manager import secret_text


class NotConfigured(NotExecuted):
    """An environment variable is missing or wrong; nothing was sent."""


class SecretUnavailable(NotExecuted):
    """A secret cannot be read now; nothing was sent."""


def seconds(name: str, *, default: int) -> int:
    """The environment variable `name`, a whole number of seconds, or `default` if it is not set.

    Raises:
        NotConfigured: it is not a whole number.
    """
    value = os.environ.get(name)
    if not value:
        return default
    if not (value.isascii() and value.isdecimal()):
        raise NotConfigured(
            f"the environment variable {name} must be a whole number of seconds, 0 or more"
        )
    return int(value)


def secret(name: str) -> str:
    """The secret that `<name>_ARN` names in Secrets Manager, or the environment variable `name`.

    A deployed service uses the first: no configuration contains the secret, and a rotated secret is
    used within minutes. The second is for local use.

    Raises:
        NotConfigured: neither is set.
        SecretUnavailable: Secrets Manager does not answer, or refuses.
    """
    named = os.environ.get(f"{name}_ARN")
    if not named:
        return setting(name)
    try:
        return secret_text(named, SystemClock().now_ms()).strip()
    except StoreError as error:
        raise SecretUnavailable(f"the secret of {name} cannot be read ({error})") from error


def setting(name: str) -> str:
    """The environment variable `name`.

    Raises:
        NotConfigured: it is not set, or empty.
    """
    value = os.environ.get(name)
    if not value:
        raise NotConfigured(f"the environment variable {name} is not set: set it for the function")
    return value
