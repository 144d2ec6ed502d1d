"""The settings and the store of an operation: given, of a test, or of the environment."""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncekey.environment import Environment, environment
from oncekey.errors import ConfigurationError
from oncekey.settings import Settings, settings_from, table_name
from oncekey.settings import is_disabled as is_disabled_by
from oncekey.store import in_use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.store.due_index import OpenRecords
    from oncekey.store.dynamodb.store import DynamoDBStore
    from oncekey.store.s3 import ResponseBucket
    from oncekey.store.store import Store

# A different value of any of these makes another store. In Lambda they never change.
_CONNECTION = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "ONCEKEY_TRANSPORT",
)


_making_a_store = threading.Lock()


def settings(given: Mapping[str, int | str]) -> Settings:
    """The settings from what was `given`, else from the environment.

    Raises:
        ConfigurationError: with every fault found.
    """
    return _settings(environment(), tuple(sorted(given.items())))


def is_disabled() -> bool:
    """Whether ONCEKEY_DISABLED switches the library off.

    It does not count while a test has replaced the store.

    Raises:
        ConfigurationError: the variable has neither of its values.
    """
    return in_use.store is None and is_disabled_by(environment().variables)


def store(call_timeout_ms: int, given: Store | None = None) -> Store:
    """The store in use: the test's, else the `given` one, else the one that the environment names.

    ONCEKEY_TABLE, ONCEKEY_RESPONSE_BUCKET and ONCEKEY_OUTBOX_TABLE name it. All handlers of a
    sandbox share that store, and so its client and connections. With ONCEKEY_DISABLED, outside
    Lambda, it is a store that keeps nothing, whatever was given. In Lambda, handlers that run
    without protection still apply the writes that they collect: their callers are told of them.

    Raises:
        ConfigurationError: no table is named.
    """
    replacement = in_use.store
    if replacement is not None:
        return replacement
    if is_disabled() and "AWS_LAMBDA_FUNCTION_NAME" not in environment().variables:
        from oncekey.store.disabled import STORE

        return STORE
    return given if given is not None else _connected(call_timeout_ms)


def bucket(name: str) -> ResponseBucket:
    """The bucket of this name. All readers of payloads share it, and so its client."""
    with _making_a_store:
        return _bucket(name, tuple(os.environ.get(name, "") for name in _CONNECTION))


def _connected(call_timeout_ms: int) -> DynamoDBStore:
    connection = tuple(os.environ.get(name, "") for name in _CONNECTION)
    bucket = os.environ.get("ONCEKEY_RESPONSE_BUCKET", "").strip()
    outbox = os.environ.get("ONCEKEY_OUTBOX_TABLE", "").strip()
    # Without the lock, threads with simultaneous first calls would each make a store and a client.
    with _making_a_store:
        return _store(table_name(os.environ), bucket, outbox, call_timeout_ms, connection)


def open_records(call_timeout_ms: int, given: OpenRecords | None = None) -> OpenRecords:
    """The same store, for finding records that are due.

    Raises:
        ConfigurationError: no table is named, or the test's store cannot find such records.
    """
    replacement: Any = in_use.store
    if replacement is None and not is_disabled():
        return given if given is not None else _connected(call_timeout_ms)
    replacement = replacement or store(call_timeout_ms)
    if not hasattr(replacement, "due"):
        fault = f"{type(replacement).__name__} has no `due`: it cannot find records that are due"
        raise ConfigurationError("use_store", [fault])
    found: OpenRecords = replacement
    return found


@lru_cache(maxsize=64)
def _settings(now: Environment, given: tuple[tuple[str, int | str], ...]) -> Settings:
    # The prefix also matches misspelt names, such as ONCE_KEY_TABLE.
    ours = {name: text for name, text in now.variables.items() if name[:4].upper() == "ONCE"}
    return settings_from(ours, dict(given))


@lru_cache(maxsize=16)
def _bucket(
    name: str,
    connection: tuple[str, ...],  # noqa: ARG001 -- a part of the cache's key
) -> ResponseBucket:
    from oncekey.store.s3 import ResponseBucket

    return ResponseBucket(name)


@lru_cache(maxsize=16)
def _store(
    table: str,
    bucket: str,
    outbox: str,
    call_timeout_ms: int,
    connection: tuple[str, ...],
) -> DynamoDBStore:
    from oncekey.store.dynamodb.store import DynamoDBStore

    return DynamoDBStore(
        table,
        call_timeout_ms=call_timeout_ms,
        bucket=_bucket(bucket, connection) if bucket else None,
        outbox=outbox,
    )
