"""The log lines of webhooks. They never contain an id, a header, a body or a secret."""

from __future__ import annotations

import logging

_logger = logging.getLogger("oncekey")


def refused(operation: str, code: str, detail: str) -> None:
    """A webhook was refused without a call to the store, or is no event that its function can read.

    Then: the sender gets 400.
    """
    _logger.warning(
        "oncekey webhook-refused: %s: %s: %s",
        operation,
        code,
        detail,
        extra={"oncekey_event": "webhook-refused", "operation": operation, "reason": code},
    )


def not_understood(operation: str, error: Exception) -> None:
    """The function of a webhook raised on a signed event, which was refused.

    It may be a mistake in the code. The error's text is not logged, because it may repeat the
    event.

    To do: check whether the code has a mistake.
    """
    _logger.error(
        "oncekey webhook-not-understood: the function of %s raised %s",
        operation,
        type(error).__name__,
        extra={"oncekey_event": "webhook-not-understood", "operation": operation},
    )


def secrets_unavailable(operation: str, error: Exception) -> None:
    """The webhook's secrets cannot be read, so no signature can be verified.

    To do: check the secret and the function's grant.
    """
    _logger.error(
        "oncekey webhook-secrets-unavailable: the secrets of %s cannot be read (%s)",
        operation,
        type(error).__name__,
        extra={"oncekey_event": "webhook-secrets-unavailable", "operation": operation},
    )


def foreign_record(operation: str, status: str) -> None:
    """An event met a record that no webhook wrote: two operations share a name.

    To do: give the webhook an operation name of its own.
    """
    _logger.error(
        "oncekey webhook-foreign-record: %s met a record that is %s: give the webhook an operation"
        " name of its own",
        operation,
        status,
        extra={"oncekey_event": "webhook-foreign-record", "operation": operation},
    )
