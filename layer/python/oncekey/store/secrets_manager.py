"""Secrets that are read at run time. This is the only module that uses Secrets Manager's API.

https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.store.aws_errors import store_error

if TYPE_CHECKING:
    from oncekey.errors import StoreError

# A rotated secret is used everywhere after this time.
MAX_AGE_MS = 5 * 60_000
# While Secrets Manager does not answer, the last secret is used for this long, and a new read is
# tried every ten seconds. A revoked secret is used no longer than this.
OUTAGE_MS = 60 * 60_000
_ASK_AGAIN_MS = 10_000
_TIMEOUT_MS = 1_500
# A different value of any of these makes another client. In Lambda they never change.
_CONNECTION = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_SECRETS_MANAGER",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
)


@dataclass(frozen=True, slots=True)
class _Kept:
    text: str = field(repr=False)
    read_at_ms: int
    ask_at_ms: int


_kept: dict[tuple[str, ...], _Kept] = {}
# Typed as Any, because few users install the stubs.
_clients: dict[tuple[str, ...], Any] = {}
_one_at_a_time = threading.Lock()


def secret_text(name: str, now_ms: int) -> str:
    """The text of the secret of this name or ARN, at most `MAX_AGE_MS` old.

    Raises:
        StoreError: the secret cannot be read, and was not read during the last `OUTAGE_MS`.
    """
    connection = tuple(os.environ.get(variable, "") for variable in _CONNECTION)
    place = (name, *connection)
    with _one_at_a_time:
        kept = _kept.get(place)
        # A clock that was set back must not prolong the use of a secret that was revoked.
        if kept is not None and kept.read_at_ms <= now_ms < kept.ask_at_ms:
            return kept.text
        try:
            text = _read(name, connection)
        except Exception as error:
            failure: StoreError = store_error(error)
            if kept is None or now_ms - kept.read_at_ms > OUTAGE_MS:
                raise failure from error
            since_ms = min(kept.read_at_ms, now_ms)
            _kept[place] = _Kept(kept.text, since_ms, now_ms + _ASK_AGAIN_MS)
            return kept.text
        _kept[place] = _Kept(text, now_ms, now_ms + MAX_AGE_MS)
        return text


def _read(name: str, connection: tuple[str, ...]) -> str:
    if connection not in _clients:
        _clients[connection] = _client()
    answer = _clients[connection].get_secret_value(SecretId=name)
    if "SecretString" in answer:
        return str(answer["SecretString"])
    return bytes(answer["SecretBinary"]).decode("utf-8", "surrogateescape")


def _client() -> Any:
    import boto3
    from botocore.config import Config

    # The call delays the handler, so there is one attempt only. The client may retry.
    config = Config(
        connect_timeout=_TIMEOUT_MS / 3000,
        read_timeout=2 * _TIMEOUT_MS / 3000,
        retries={"total_max_attempts": 1, "mode": "standard"},
        user_agent_extra="oncekey",
    )
    return boto3.client("secretsmanager", config=config)


def forget() -> None:
    """Forget every secret and client of this process."""
    with _one_at_a_time:
        _kept.clear()
        _clients.clear()
