"""Our own DynamoDB client, and how long a call of a user's own can take."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_logger = logging.getLogger("oncekey")

# Held while a client of any service is made: threads that call first at the same time wait for one
# client instead of making one each, and boto3's default session is not safe to share meanwhile.
making_a_client = threading.RLock()

# Above these a client of the user's own can outlive the function, so that a reserve or a completion
# never returns.
_LONGEST_SENSIBLE_TIMEOUT_S = 5
_MOST_SENSIBLE_ATTEMPTS = 3


def own_client(call_timeout_ms: int) -> DynamoDBClient:
    """A client with short timeouts and no retries of its own.

    The engine retries, within the time that is left.

    One call takes at most `call_timeout_ms`, a third of it for the connection. Nothing is sent
    until the first call. The Region and the credentials are boto3's business.
    """
    # boto3 is imported here, so that importing the library costs nothing and needs nothing.
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    # A connection that cannot be made and an answer that does not come are waited for in turn.
    connect_timeout_s = call_timeout_ms / 3000
    config = Config(
        connect_timeout=connect_timeout_s,
        read_timeout=2 * connect_timeout_s,
        retries={"total_max_attempts": 1, "mode": "standard"},
        # We build every parameter ourselves and test them against botocore's validation; at run
        # time it is a tenth of a call.
        parameter_validation=False,
        tcp_keepalive=True,
        user_agent_extra="oncekey",
    )
    client: DynamoDBClient = boto3.client("dynamodb", config=config)
    return client


def warn_about(client: Any) -> None:
    """Log a warning if one stalled call of a user's own client could outlive the function."""
    config = client.meta.config
    faults: list[str] = []
    if (config.read_timeout or 60) > _LONGEST_SENSIBLE_TIMEOUT_S:
        faults.append(f"read_timeout is {config.read_timeout} s")
    if (config.connect_timeout or 60) > _LONGEST_SENSIBLE_TIMEOUT_S:
        faults.append(f"connect_timeout is {config.connect_timeout} s")
    attempts = (config.retries or {}).get("total_max_attempts")
    if attempts is None or attempts > _MOST_SENSIBLE_ATTEMPTS:
        faults.append(f"retries allow {attempts or 'the default number of'} attempts")
    if faults:
        _logger.warning(
            "oncekey: one stalled call of the DynamoDB client passed in can outlive the function"
            " (%s); use at most %s s and %s attempts",
            ", ".join(faults),
            _LONGEST_SENSIBLE_TIMEOUT_S,
            _MOST_SENSIBLE_ATTEMPTS,
        )


def longest_call_ms(client: Any) -> int:
    """How long one call of `client` can take, its own retries included, back-off not."""
    config = client.meta.config
    retries = config.retries or {}
    # botocore's defaults: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
    default = 3 if retries.get("mode") in {"standard", "adaptive"} else 5
    attempts = retries.get("total_max_attempts") or default
    return int(1000 * attempts * ((config.connect_timeout or 60) + (config.read_timeout or 60)))
