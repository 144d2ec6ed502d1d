"""The store on DynamoDB: its calls, and the meaning of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError, StoreError
from oncekey.record.stored_answer import Place
from oncekey.record.transitions import Reserve
from oncekey.settings import STORE_TIMEOUT_MS, TRANSPORTS
from oncekey.store.aws_errors import is_refusal, store_error
from oncekey.store.dynamodb.client import (
    longest_call_ms,
    making_a_client,
    own_client,
    warn_about,
)
from oncekey.store.dynamodb.codec import Item, record_from_item
from oncekey.store.dynamodb.counters import counter_from_item
from oncekey.store.dynamodb.due import (
    due_page,
    due_parameters,
    note_shards_parameters,
    put_off_parameters,
    shards_in,
    shards_parameters,
    times_put_off,
)
from oncekey.store.dynamodb.expressions import put_parameters, update_parameters
from oncekey.store.dynamodb.transaction import cancellation, companion_item, transaction_parameters
from oncekey.store.store import Refused, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
    from oncekey.record.counter import Counter
    from oncekey.record.pause import Pause, PauseScope
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition
    from oncekey.store.due_index import DuePage
    from oncekey.store.s3 import ResponseBucket


# What to check if DynamoDB says that the table has another form.
_FORM = (
    "its name, its key (partition key pk of type S, no sort key) and its index due (partition key"
    " due_shard of type S, sort key due_at of type N)"
)
# A method that boto3's client has, and neither its resource nor the client of another service.
_CLIENT_HAS = "transact_write_items"


class DynamoDBStore:
    """Records in one DynamoDB table with the partition key `pk`.

    Creating this object sends nothing and needs no Region. The first call creates the client,
    unless `client` (a boto3 DynamoDB client) is given. A given client is used unchanged; a warning
    is logged if its timeouts are too long.

    `call_timeout_ms` is the longest that one call may take. The library's own client is configured
    with it (1.5 s by default). For a given client, it is computed from that client's settings
    unless you pass it. `transport` is `sdk` (boto3) or `direct`, for the library's own client. It
    is refused beside `client`. By default, ONCEKEY_TRANSPORT decides. `bucket` stores the answers
    too large for an item. `outbox` is the table for messages, with the partition key `id`.

    Raises:
        ConfigurationError: an argument is wrong; the message names every fault.
    """

    def __init__(
        self,
        table: str,
        *,
        client: DynamoDBClient | None = None,
        bucket: ResponseBucket | None = None,
        outbox: str = "",
        call_timeout_ms: int | None = None,
        transport: str | None = None,
    ) -> None:
        faults = [
            *_kind_faults(table, client, bucket, outbox, call_timeout_ms),
            *_transport_faults(transport, client),
        ]
        if faults:
            raise ConfigurationError("DynamoDBStore", faults)
        self._table = table
        self._client = client
        self._transport = transport
        self._bucket = bucket
        self._outbox = outbox
        self._call_timeout_ms = call_timeout_ms or STORE_TIMEOUT_MS
        if client is not None:
            self._call_timeout_ms = call_timeout_ms or longest_call_ms(client)
            warn_about(client)

    @property
    def call_timeout_ms(self) -> int:
        """The longest that one call may take, from the connection to the answer."""
        return self._call_timeout_ms

    def write(self, transition: Transition) -> Written | Refused:
        """See `oncekey.store.store.Store.write`.

        One PutItem for a reserve, one UpdateItem for any other transition.
        """
        try:
            if isinstance(transition, Reserve):
                self._connected().put_item(**put_parameters(self._table, transition))
            else:
                self._connected().update_item(**update_parameters(self._table, transition))
        except Exception as error:  # noqa: BLE001 -- every failure of a client is a store failure, and none may run a handler
            return self._refused(error)
        return Written()

    def commit(self, commit: Commit) -> Written | Refused | ConditionsFailed | Inapplicable:
        """See `oncekey.store.store.Store.commit`: one TransactWriteItems."""
        parameters = transaction_parameters(self._table, self._outbox, commit)
        try:
            self._connected().transact_write_items(**parameters)
        except Exception as error:  # noqa: BLE001 -- as in `write`
            return self._cancelled(error, commit)
        return Written()

    def read(self, pk: str) -> Record | None:
        """See `oncekey.store.store.Store.read`: one strongly consistent GetItem."""
        item = self._get(pk)
        return None if item is None else record_from_item(item)

    def counter(self, name: str) -> Counter | None:
        """See `oncekey.store.store.Store.counter`: one strongly consistent GetItem."""
        item = self._get(name)
        return None if item is None else counter_from_item(item)

    def pauses(self) -> tuple[Pause, ...]:
        """See `oncekey.store.store.Store.pauses`: one strongly consistent GetItem."""
        from oncekey.store.dynamodb.pauses import PAUSES_KEY, pauses_from_item

        return pauses_from_item(self._get(PAUSES_KEY) or {})

    def pause(self, pause: Pause) -> Pause | None:
        """See `oncekey.store.pauses.Pausable.pause`: one UpdateItem."""
        from oncekey.store.dynamodb.pauses import pause_parameters

        return self._changed(pause_parameters(self._table, pause), pause.scope, pause.name)

    def resume(self, scope: PauseScope, name: str) -> Pause | None:
        """See `oncekey.store.pauses.Pausable.resume`: one UpdateItem."""
        from oncekey.store.dynamodb.pauses import resume_parameters

        return self._changed(resume_parameters(self._table, scope, name), scope, name)

    def _changed(self, update: dict[str, Any], scope: PauseScope, name: str) -> Pause | None:
        from oncekey.store.dynamodb.pauses import former_pause

        try:
            answer = self._connected().update_item(**update)
        except Exception as error:
            raise self._failure(error) from error
        return former_pause(answer, scope, name)

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> DuePage:
        """See `oncekey.store.due_index.OpenRecords.due`: one Query of the index."""
        parameters = due_parameters(self._table, shard, until_ms, after)
        try:
            return due_page(self._connected().query(**parameters))
        except Exception as error:
            raise self._failure(error) from error

    def put_off(self, pk: str, *, due_by_ms: int, to_ms: int, counts: bool = True) -> int | None:
        """See `oncekey.store.due_index.OpenRecords.put_off`: one UpdateItem."""
        parameters = put_off_parameters(self._table, pk, due_by_ms, to_ms, counts=counts)
        try:
            return times_put_off(self._connected().update_item(**parameters))
        except Exception as error:
            if is_refusal(error):
                return None
            raise self._failure(error) from error

    def most_due_shards(self, at_least: int) -> int:
        """See `oncekey.store.due_index.OpenRecords`: one GetItem, and rarely a write."""
        try:
            known = shards_in(self._connected().get_item(**shards_parameters(self._table)))
            if known >= at_least:
                return known
            self._connected().update_item(**note_shards_parameters(self._table, at_least))
        except Exception as error:
            if is_refusal(error):
                # Another process has stored a larger number meanwhile.
                return self.most_due_shards(at_least)
            raise self._failure(error) from error
        return at_least

    @property
    def has_bucket(self) -> bool:
        """Whether a response bucket was given."""
        return self._bucket is not None

    @property
    def has_outbox(self) -> bool:
        """Whether an outbox table was named."""
        return bool(self._outbox)

    def save(self, blob: Blob) -> None:
        """See `oncekey.store.store.Store.save`: one PutItem of a companion, or one object."""
        if blob.at.place is Place.OBJECT:
            self._responses().put(blob.at.name, blob.data)
            return
        try:
            self._connected().put_item(TableName=self._table, Item=companion_item(blob))
        except Exception as error:
            raise self._failure(error) from error

    def fetch(self, at: StoredRef) -> bytes | None:
        """See `oncekey.store.store.Store.fetch`: one GetItem, or one object."""
        if at.place is Place.OBJECT:
            return self._responses().get(at.name)
        item = self._get(at.name)
        if item is None:
            return None
        # Another type is not an answer of ours. No digest fits the empty bytes.
        return bytes(item.get("data", {}).get("B", b""))

    def _responses(self) -> ResponseBucket:
        if self._bucket is None:
            raise StoreError("no response bucket is configured", transient=False)
        return self._bucket

    def _get(self, pk: str) -> Item | None:
        try:
            answer: Any = self._connected().get_item(
                TableName=self._table, Key={"pk": {"S": pk}}, ConsistentRead=True
            )
        except Exception as error:
            raise self._failure(error) from error
        item: Item | None = answer.get("Item")
        return item

    def _connected(self) -> DynamoDBClient:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = own_client(self._call_timeout_ms, self._transport)
        return self._client

    def _refused(self, error: Exception) -> Refused:
        if not is_refusal(error):
            raise self._failure(error) from error
        item: Item | None = getattr(error, "response", {}).get("Item")
        return Refused(record_from_item(item) if item else None)

    def _cancelled(
        self, error: Exception, commit: Commit
    ) -> Refused | ConditionsFailed | Inapplicable:
        try:
            return cancellation(error, commit, self._client)
        except StoreError as failure:
            if failure.transient:
                raise
            others = {self._outbox} if commit.messages else set[str]()
            written = {self._table, *(write.table for write in commit.writes)} | others
            where = f"in a transaction on {', '.join(sorted(written))}"
            raise failure.at(where, "their names") from error

    def _failure(self, error: Exception) -> StoreError:
        failure = store_error(error, self._client)
        if failure.transient:
            return failure
        others = ("not found", "not authorized", "no Region", "no credentials", "security token")
        is_of_its_form = failure.said and not any(each in failure.said for each in others)
        return failure.at(f"on table {self._table!r}", _FORM if is_of_its_form else "its name")

    def __repr__(self) -> str:
        return f"DynamoDBStore(table={self._table!r})"


def _kind_faults(
    table: object, client: object, bucket: object, outbox: object, call_timeout_ms: object
) -> Iterator[str]:
    # Otherwise each request would be answered 503, as if DynamoDB were down.
    if not isinstance(table, str) or not table.strip():
        yield f"table is {table!r}: the name of the idempotency table is needed, as text"
    if client is not None and (isinstance(client, type) or not hasattr(client, _CLIENT_HAS)):
        yield f"client is a {type(client).__name__}: pass boto3.client('dynamodb'), or leave it out"
    if bucket is not None and not hasattr(bucket, "put"):
        yield f"bucket is {bucket!r}: pass ResponseBucket(name)"
    if outbox is not None and not isinstance(outbox, str):
        yield f"outbox is {outbox!r}: the name of the outbox table is needed, as text"
    is_number = isinstance(call_timeout_ms, int) and not isinstance(call_timeout_ms, bool)
    if call_timeout_ms is not None and (not is_number or call_timeout_ms < 1):  # type: ignore[operator]  # it is a number
        yield f"call_timeout_ms is {call_timeout_ms!r}: a whole number from 1 is needed"


def _transport_faults(transport: str | None, client: object) -> Iterator[str]:
    if transport is None:
        return
    if transport not in TRANSPORTS:
        yield f"transport is {transport!r}: one of {', '.join(TRANSPORTS)} is needed"
    if client is not None:
        yield "transport= is for the library's own client: leave out either it or client="
