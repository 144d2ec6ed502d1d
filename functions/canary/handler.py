"""The Lambda handler. A schedule runs it; a run that raises sets off the canary's alarm."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools import Logger

from functions.canary import logic
from oncekey import natural

logger = Logger()


@natural("it makes the one payment of its event, under a key that is made of the event's id")
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Make one payment, repeat it, and return its id and its key.

    Each event of a schedule has an id of its own, and an event that is delivered twice has the
    same. By hand, invoke it with `{"id": "..."}`.

    Raises:
        CanaryFailed: The API did not accept the payment, or did not repeat its answer.
        requests.RequestException: The API or the issuer did not answer.
        NotConfigured: A variable or the secret is missing or malformed; nothing was sent.
        SecretUnavailable: The secret cannot be read now; nothing was sent.
    """
    del context
    paid = logic.pay_and_repeat(f"canary-{event['id']}")
    logger.info("canary: paid, and the same answer again", extra=paid)
    return paid
