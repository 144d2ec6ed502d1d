"""The tables on moto, in this process."""

from __future__ import annotations

import functools
import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from oncekey.errors import ConfigurationError
from oncekey.store import secrets_manager
from oncekey.store.dynamodb.client import default_client
from oncekey.store.dynamodb.store import DynamoDBStore
from oncekey.store.dynamodb.tables import create_tables
from oncekey.testing.replacement import use_store
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.clock import Clock

_NEEDS_MOTO = (
    "moto is not installed, or without its part for DynamoDB: pip install 'oncekey[testing]'"
)
# With these, a client would not reach moto, or a handler would find more than the tables.
_ELSEWHERE = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
    *("ONCEKEY_RESPONSE_BUCKET", "ONCEKEY_TRANSPORT"),
)
_RECORDS, _OUTBOX, _AUDIT = "records-under-test", "outbox-under-test", "audit-under-test"
_one_call_at_a_time = threading.RLock()


class Tables(Value, kw_only=True):
    """The tables of one test.

    Attributes:
        client: boto3's client. It validates all parameters, and makes your own tables too.
        store: the store on the tables.
        records: the name of the table of records.
        outbox: the name of the outbox table.
        audit: the name of the audit table.
    """

    client: DynamoDBClient = field(repr=False)
    store: DynamoDBStore
    records: str
    outbox: str
    audit: str


@contextmanager
def dynamodb_tables(*, clock: Clock | None = None) -> Iterator[Tables]:
    """Within the block, oncekey keeps its records in new tables on moto.

        with dynamodb_tables() as tables:
            handler(event, context)
            assert tables.client.scan(TableName=tables.records)["Count"] == 1

    All clients of AWS that are made within the block reach moto, which keeps everything in this
    process and forgets it at the end. ONCEKEY_TABLE and ONCEKEY_OUTBOX_TABLE name the tables. The
    store is in use as by `use_store`, so it also replaces a `store=` of a handler.

    moto's conditions are not atomic between threads, and DynamoDB's are. So moto's DynamoDB takes
    one call at a time here.

    Args:
        clock: the clock in use, as by `use_store`.

    Raises:
        ConfigurationError: moto is not installed.
    """
    try:
        from moto import mock_aws
        from moto.dynamodb.responses import DynamoHandler
    except ImportError as error:
        raise ConfigurationError("dynamodb_tables", [_NEEDS_MOTO]) from error
    with ExitStack() as stack:
        # A sandbox keeps secrets for minutes. The next test has its own, under the same name.
        secrets_manager.forget()
        stack.callback(secrets_manager.forget)
        stack.enter_context(patch.dict(os.environ))
        for name in _ELSEWHERE:
            os.environ.pop(name, None)
        os.environ.update(
            ONCEKEY_TABLE=_RECORDS,
            ONCEKEY_OUTBOX_TABLE=_OUTBOX,
            AWS_DEFAULT_REGION=os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true",
            # moto does not answer for the endpoints of single accounts.
            AWS_ACCOUNT_ID_ENDPOINT_MODE="disabled",
        )
        stack.enter_context(mock_aws())
        stack.enter_context(patch.object(DynamoHandler, "call_action", _serialised(DynamoHandler)))
        client = default_client()
        create_tables(client, _RECORDS, outbox=_OUTBOX, audit=_AUDIT)
        store = DynamoDBStore(_RECORDS, outbox=_OUTBOX, transport="sdk")
        stack.enter_context(use_store(store, clock=clock))
        yield Tables(client=client, store=store, records=_RECORDS, outbox=_OUTBOX, audit=_AUDIT)


def _serialised(handler: Any) -> Any:
    call_action = handler.call_action

    @functools.wraps(call_action)
    def one_at_a_time(self: Any) -> Any:
        with _one_call_at_a_time:
            return call_action(self)

    return one_at_a_time
