"""The library's own DynamoDB client, and the longest call of a client that the user passes in."""

from __future__ import annotations

import logging
import os
import sys
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncekey import settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_logger = logging.getLogger("oncekey")

# Held while a client of any service is made. So threads with simultaneous first calls make one
# client, and boto3's default session, which is not thread-safe, is used by one thread at a time.
making_a_client = threading.RLock()

# Above these limits, a call of the user's client can take longer than the function may run. A
# reserve or a completion would then never return.
_LONGEST_SENSIBLE_TIMEOUT_S = 5
_MOST_SENSIBLE_ATTEMPTS = 3


def own_client(call_timeout_ms: int, transport: str | None = None) -> DynamoDBClient:
    """A client with short timeouts and no retries of its own.

    The engine retries within the time that is left. Nothing is sent until the first call.
    `transport` is `sdk` (boto3) or `direct`; by default, ONCEKEY_TRANSPORT decides. With `direct`,
    boto3 is used all the same if only boto3 can follow the configuration; that is logged once.

    Raises:
        ConfigurationError: ONCEKEY_TRANSPORT has another value.
    """
    if (transport or settings.transport(os.environ)) == "direct":
        # Imported here, because most of it is not needed with boto3.
        from oncekey.store.direct.client import DirectClient
        from oncekey.store.direct.endpoint import LeftToBoto3

        try:
            # It has those methods of boto3's client that the store calls.
            user_agent = _user_agent("oncekey")
            return DirectClient(os.environ, call_timeout_ms, user_agent=user_agent)  # type: ignore[return-value]
        except LeftToBoto3 as reason:
            _log_that_boto3_is_used(str(reason))
    return _boto3_client(call_timeout_ms)


def default_client() -> DynamoDBClient:
    """A client with boto3's own defaults, which validates all parameters: for tests and tools."""
    import boto3

    with making_a_client:
        return boto3.client("dynamodb")


@lru_cache(maxsize=16)
def _log_that_boto3_is_used(reason: str) -> None:
    """`ONCEKEY_TRANSPORT` is `direct`, and boto3 carries the calls all the same; the line says why.

    It is logged once for each cause in a process.

    To do: nothing; or remove the [cause](../guides/direct-transport.md#what-is-left-to-boto3).
    """
    _logger.warning(
        "oncekey: the direct transport leaves DynamoDB's calls to boto3, because %s",
        reason,
        extra={"oncekey_event": "transport-not-direct", "reason": reason},
    )


def _boto3_client(call_timeout_ms: int) -> DynamoDBClient:
    """The SDK's client. It finds the Region and the credentials.

    Where the program has loaded boto3, the client is one of boto3's default session, which the
    program may have set up. Otherwise botocore makes the same client, 10 % faster.

    One call takes at most `call_timeout_ms` as long as the peer sends without pauses, a third of it
    for the connection.
    """
    # Imported here, so that importing the library is fast and works without the SDK.
    from botocore import __version__ as botocore_version
    from botocore.config import Config
    from botocore.session import get_session

    boto3 = sys.modules.get("boto3")
    if not hasattr(boto3, "client"):
        # It is not loaded, or another thread is loading it at this moment.
        boto3 = None
    sdk = f"Botocore/{botocore_version}" if boto3 is None else f"Boto3/{boto3.__version__}"

    # The connect timeout and the read timeout add up.
    connect_timeout_s = call_timeout_ms / 3000
    config = Config(
        connect_timeout=connect_timeout_s,
        read_timeout=2 * connect_timeout_s,
        retries={"total_max_attempts": 1, "mode": "standard"},
        # The library builds every parameter itself, and its tests check them with botocore's
        # validation. At run time, validation would take a tenth of the time of a call.
        parameter_validation=False,
        tcp_keepalive=True,
        # Without a given one, botocore builds it twice for every call.
        user_agent=_user_agent(sdk),
        user_agent_extra="oncekey",
    )
    client: Any
    if boto3 is not None:
        client = boto3.client("dynamodb", config=config)
    else:
        session = get_session()
        client = session.create_client("dynamodb", config=config)
    # With one attempt, botocore's retry handler never asks for another. Where a release of botocore
    # knows its handler by another name, this does nothing, and a call only takes a little longer.
    client.meta.events.unregister("needs-retry.dynamodb", unique_id="retry-config-dynamodb")
    from oncekey.store.dynamodb.boto3_signing import use_cached_signing_key

    use_cached_signing_key(client)
    made: DynamoDBClient = client
    return made


def _user_agent(sdk: str) -> str:
    """What CloudTrail shows of the caller: its SDK, Python, runtime and application."""
    python = ".".join(map(str, sys.version_info[:3]))
    runtime = os.environ.get("AWS_EXECUTION_ENV")
    # https://docs.aws.amazon.com/sdkref/latest/guide/feature-appid.html
    application = os.environ.get("AWS_SDK_UA_APP_ID")
    parts = [f"exec-env/{runtime}"] * bool(runtime) + [f"app/{application}"] * bool(application)
    return " ".join([sdk, f"lang/python#{python}", *parts])


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
    """How long one call of `client` can take, with its own retries and without their back-off."""
    config = client.meta.config
    retries = config.retries or {}
    # botocore's defaults: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
    default = 3 if retries.get("mode") in {"standard", "adaptive"} else 5
    attempts = retries.get("total_max_attempts") or default
    return int(1000 * attempts * ((config.connect_timeout or 60) + (config.read_timeout or 60)))
