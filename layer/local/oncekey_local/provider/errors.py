"""Refusals as Stripe's error objects. Stripe's SDK maps the status to an exception."""

from __future__ import annotations

from typing import Any


class ProviderError(Exception):
    """A request is answered with this error, which contains the whole answer.

    It is remembered under the idempotency key only if it was raised after the execution began.
    """

    def __init__(
        self, status: int, error: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = {"error": error}
        self.headers = {"Stripe-Should-Retry": "false"} if headers is None else headers
        super().__init__(error["message"])


def invalid_request(
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    status: int = 400,
    payment_intent: dict[str, Any] | None = None,
) -> ProviderError:
    """The request cannot be executed. `param` names the wrong parameter."""
    error: dict[str, Any] = {"type": "invalid_request_error", "message": message}
    optional = {"code": code, "param": param, "payment_intent": payment_intent}
    return ProviderError(
        status, error | {name: value for name, value in optional.items() if value is not None}
    )


def resource_missing(kind: str, identifier: str, *, param: str) -> ProviderError:
    """The object does not exist."""
    return invalid_request(
        f"No such {kind}: '{identifier}'", param=param, code="resource_missing", status=404
    )


def unauthorised(message: str) -> ProviderError:
    """The API key is missing or not accepted."""
    return ProviderError(401, {"type": "invalid_request_error", "message": message})


def card_declined(payment_intent: dict[str, Any]) -> ProviderError:
    """The card was declined. The payment intent exists and may be confirmed with another card."""
    error = dict(payment_intent["last_payment_error"])
    return ProviderError(402, error | {"payment_intent": payment_intent})


def key_reused(key: str) -> ProviderError:
    """The key was first used with other parameters."""
    message = (
        "Keys for idempotent requests can only be used with the same parameters "
        f"they were first used with. Try using a key other than '{key}' if you "
        "meant to execute a different request."
    )
    return ProviderError(400, {"type": "idempotency_error", "message": message})


def key_in_use(key: str) -> ProviderError:
    """The first request under this key is still running."""
    message = (
        "There is currently another in-progress request using this Idempotent Key (that "
        f"probably means you submitted twice, and the other request is still going "
        f"through): {key}. Please try again later."
    )
    error = {"type": "idempotency_error", "code": "idempotency_key_in_use", "message": message}
    return ProviderError(409, error, {"Stripe-Should-Retry": "true"})


def internal_error() -> ProviderError:
    """The provider failed before it did anything. Without a retry header, the status decides."""
    return ProviderError(500, {"type": "api_error", "message": "An unknown error occurred."}, {})
