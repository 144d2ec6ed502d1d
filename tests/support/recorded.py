"""Recorded handlers on moto: the idempotency table, a business table, an outbox and a bucket."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from moto.core.botocore_stubber import MockRawResponse

from infra.service_resources import IDEMPOTENCY
from oncekey import DynamoDBStore
from oncekey.store.dynamodb.author_writes import python_values
from oncekey.store.dynamodb.codec import record_from_item
from oncekey.store.s3 import ResponseBucket
from oncekey_local.store.tables import create_table_request
from tests.support.aws_engine import mocked_aws
from tests.support.dynamodb import BUCKET, TABLE, LossyTransport, Recorder, items, make_table
from tests.support.shared_clients import shared_client
from tests.support.steps import Action, Steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from oncekey import Operation
    from oncekey.record.record import Record

LEDGER = "ledger-under-test"
OUTBOX = "outbox-under-test"
# Everything that a store asks DynamoDB for.
_REQUESTS = ("PutItem", "UpdateItem", "GetItem", "TransactWriteItems")
WITHOUT_END = 10**6
_ONCE = Config(
    connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1, "mode": "standard"}
)


class World:
    """The tables, what is sent to them, and what befalls it on the way.

    The client validates every parameter and repeats nothing by itself.
    """

    def __init__(self, client: DynamoDBClient, bucket: S3Client) -> None:
        self.client = client
        self.bucket = bucket
        for table in (LEDGER, OUTBOX):
            make_table(client, table)
        self.recorder = Recorder(client, bucket)
        self.transport = LossyTransport(client, bucket)

    def store(self, *, has_bucket: bool = True, outbox: str = OUTBOX) -> DynamoDBStore:
        """A store on these tables, whose calls take no time worth mentioning."""
        responses = ResponseBucket(BUCKET, client=self.bucket) if has_bucket else None
        return DynamoDBStore(
            TABLE, client=self.client, bucket=responses, outbox=outbox, call_timeout_ms=1
        )

    def service(self, *, has_bucket: bool = True, outbox: str = OUTBOX, **options: Any) -> Steps:
        """A handler of recorded effects on such a store."""
        options = {"store": self.store(has_bucket=has_bucket, outbox=outbox), **options}
        return Steps(**options)

    @property
    def record(self) -> Record:
        """The only record."""
        (item,) = [item for item in items(self.client) if "status" in item]
        return record_from_item(item)

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The business rows, by their id."""
        return {row["id"]: row for row in self._values(LEDGER)}

    @property
    def balance(self) -> int:
        """What the counter of the ledger stands at."""
        return int(self.rows.get("balance", {}).get("amount", 0))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The items of the outbox, by their time and id."""
        return sorted(self._values(OUTBOX), key=lambda row: (row["created_at"], row["id"]))

    def take_sent(self) -> list[str]:
        """The requests that were sent since this was last asked."""
        operations = self.recorder.operations
        self.recorder.calls.clear()
        return operations

    def transactions(self) -> list[dict[str, Any]]:
        """The parameters of the transactions among them, in their order."""
        return [params for name, params in self.recorder.calls if name == "TransactWriteItems"]

    def is_empty_of_effects(self) -> bool:
        """Whether nothing of the author's was applied."""
        return not self.rows and not self.messages

    def calm(self) -> None:
        """From now on every request arrives, and every answer."""
        for request in _REQUESTS:
            self.transport.lose(request, 0)
            self.transport.refuse(request, 0)

    def dies(self, service: Steps, *actions: Action) -> None:
        """One request whose process dies after these, and whose lease then runs out."""

        def dead(_service: Steps, _op: Operation) -> NoReturn:
            for request in _REQUESTS:
                self.transport.refuse(request, WITHOUT_END)
            raise SystemExit(137)

        with contextlib.suppress(SystemExit):
            service.sends(*actions, dead)
        self.calm()
        service.lets_the_lease_run_out()

    def _values(self, table: str) -> list[dict[str, Any]]:
        found = self.client.scan(TableName=table, ConsistentRead=True)["Items"]
        return [python_values(item) or {} for item in found]


@contextlib.contextmanager
def recorded_world(*, honours_tokens: bool = False) -> Iterator[World]:
    """A world of its own, for one thread, on `mocked_aws`."""
    with (
        mocked_aws(honours_tokens=honours_tokens),
        shared_client("dynamodb", _ONCE) as client,
        shared_client("s3", _ONCE) as bucket,
    ):
        client.create_table(**create_table_request(TABLE, IDEMPOTENCY))
        bucket.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        yield World(client, bucket)


class Wire:
    """The transactions as they go over the wire: their bodies, and what befalls the next ones."""

    def __init__(self, world: World) -> None:
        self.bodies: list[bytes] = []
        self._dropped = 0
        self._failed = 0
        events: Any = world.client.meta.events
        events.register_first("before-send.dynamodb.TransactWriteItems", self._before_send)

    def befall(self, *, dropped: int = 0, failed: int = 0) -> None:
        """So many never arrive; so many after them are applied and answered 500."""
        self._dropped, self._failed = dropped, failed

    def _before_send(self, request: Any, **_: object) -> AWSResponse | None:
        self.bodies.append(bytes(request.body))
        if self._dropped:
            self._dropped -= 1
            raise EndpointConnectionError(endpoint_url=request.url)
        if not self._failed:
            return None
        self._failed -= 1
        # botocore takes this answer, the first, and moto carries the request out all the same.
        kind = HTTPHeaders.from_dict({"x-amzn-errortype": "InternalServerError"})
        return AWSResponse(request.url, 500, kind, MockRawResponse(b'{"message": "we are sorry"}'))


class Refusals:
    """Errors that DynamoDB answers in place of carrying out the next calls of an operation."""

    def __init__(self, world: World, operation: str = "TransactWriteItems") -> None:
        self._next: list[dict[str, Any] | None] = []
        events: Any = world.client.meta.events
        events.register(f"before-call.dynamodb.{operation}", self._before)

    def then(self, *errors: dict[str, Any] | None, times: int = 1) -> None:
        """Refuse the next calls so, in their order, this many times over; None lets one pass."""
        self._next = list(errors) * times

    def always(self, error: dict[str, Any]) -> None:
        """Refuse every call so, until something else is said."""
        self._next = [error] * 10_000

    def _before(self, **_: object) -> tuple[SimpleNamespace, dict[str, Any]] | None:
        error = self._next.pop(0) if self._next else None
        if error is None:
            return None
        return SimpleNamespace(status_code=error["ResponseMetadata"]["HTTPStatusCode"]), error


def error(code: str, message: str = "as injected", status: int = 400) -> dict[str, Any]:
    """An error as botocore parses it."""
    return {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }


def cancelled(*reasons: str | dict[str, Any]) -> dict[str, Any]:
    """A cancelled transaction, with the reason of each of its actions in their order."""
    whole = [{"Code": each} if isinstance(each, str) else each for each in reasons]
    names = ", ".join(str(each["Code"]) for each in whole)
    answer = error("TransactionCanceledException", f"Transaction cancelled [{names}]")
    return {**answer, "CancellationReasons": whole}


def transfer(amount: int = 5, *, publishes: bool = True) -> Action:
    """Collect a counter, which shows every repeat, a row and a message."""

    def action(_service: Steps, op: Operation) -> None:
        op.transaction.update(
            LEDGER, {"id": "balance"}, "ADD amount :amount", values={":amount": amount}
        )
        op.transaction.put(LEDGER, {"id": op.operation_id, "amount": amount})
        if publishes:
            op.outbox.publish("payment.requested", {"amount": amount})

    return action


def put(row_id: str, **attributes: Any) -> Action:
    """Collect a row of the ledger."""
    return lambda _service, op: op.transaction.put(LEDGER, {"id": row_id, **attributes})


def publish(topic: str = "payment.requested", payload: object = None) -> Action:
    """Collect a message; its id is what the handler is given."""
    return lambda _service, op: op.outbox.publish(topic, payload)


def check(row_id: str = "account", **options: Any) -> Action:
    """Let all be applied only if this row of the ledger exists."""
    return lambda _service, op: op.transaction.check(
        LEDGER, {"id": row_id}, "attribute_exists(id)", **options
    )


def point(name: str) -> Action:
    """Commit what was collected so far."""
    return lambda _service, op: op.commit(name)
