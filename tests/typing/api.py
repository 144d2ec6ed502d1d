"""The public API as type checkers see it: checked by mypy (strict) and pyright, never run."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, assert_type

from pydantic import BaseModel

from oncekey import (
    IETF,
    STRIPE,
    Completed,
    ConditionFailed,
    DynamoDBStore,
    Final,
    HttpRequest,
    InProgress,
    KeyReused,
    NotExecuted,
    Operation,
    OutcomeUnknown,
    Question,
    Quota,
    QuotaExceeded,
    ResponseBucket,
    StillUnknown,
    StoreUnavailable,
    current_operation,
    idempotent,
    idempotent_function,
    jwt_claim,
    resolver,
    single_tenant,
)
from oncekey.ledger import (
    LedgerField,
    LedgerTotals,
    OnlyOurs,
    OnlyTheirs,
    compare_ledgers,
    sorted_by_id,
)
from oncekey.outbox import JobRunner, Topics
from oncekey.testing import (
    Clock,
    CrashingStore,
    ManualClock,
    MemoryStore,
    OpenRecords,
    Store,
    StoreContract,
    api_event,
    assert_idempotent,
    dynamodb_tables,
    let_time_pass,
    sqs_event,
    use_store,
)
from oncekey.webhooks import Delivery, Publish, StripeSignature, webhook

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext
    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.queued import Jobs


class Answer(TypedDict):
    """An answer with a type of its own."""

    statusCode: int
    body: str


@idempotent(operation="POST /payments", tenant=jwt_claim("tenant_id"))
def with_operation(event: dict[str, Any], context: LambdaContext, op: Operation) -> Answer:
    """The operation is given, and is no longer a parameter."""
    assert_type(op.operation_id, str)
    assert_type(op.downstream_key("charge"), str)
    return {"statusCode": 200, "body": f"{event}{context}"}


@idempotent(operation="POST /payments", tenant=single_tenant(), effects="repeatable")
def without_operation(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Event, context and result keep their types."""
    assert_type(current_operation(), Operation)
    if not _event:
        raise NotExecuted
    raise Final(402, {"declined": True}, headers={"X-Reason": "card"})


def signatures_survive(event: dict[str, Any], context: LambdaContext) -> None:
    """A decorated handler is called with event and context, and returns what it returned."""
    expected: Callable[[dict[str, Any], LambdaContext], Answer] = with_operation
    expected(event, context)
    assert_type(with_operation(event, context), Answer)
    assert_type(without_operation(event, context), dict[str, Any])


def wrong_uses_are_found(event: dict[str, Any], context: LambdaContext) -> None:
    """What is wrong is an error; the checkers complain if one of these is none."""
    with_operation(event)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with_operation("text", context)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    idempotent(operation="POST /payments")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    idempotent(operation="a", tenant=single_tenant(), quota=100)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    idempotent(operation=1, tenant=single_tenant())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@idempotent(operation="POST /payments", tenant=single_tenant(), preset=STRIPE)
async def a_coroutine(event: dict[str, Any], context: LambdaContext, op: Operation) -> Answer:
    """A coroutine function stays one."""
    return {"statusCode": 200, "body": f"{event}{context}{op.attempt}"}


@idempotent_function(operation="charge", key="message_id", tenant=single_tenant())
def charge(record: dict[str, str], *, amount: Decimal = Decimal(1)) -> tuple[str, Decimal]:
    """Parameters and result keep their types."""
    return record["id"], amount


@idempotent_function(
    operation="refund", key=str.strip, tenant=single_tenant(), quota=Quota(new_keys=100)
)
async def refund(payment_id: str) -> Decimal:
    """So do those of a coroutine function."""
    return Decimal(payment_id)


async def functions_keep_their_types(event: dict[str, Any], context: LambdaContext) -> None:
    """Results are what the functions return; what they raise has fields."""
    assert_type(await a_coroutine(event, context), Answer)
    assert_type(charge({"id": "1"}, amount=Decimal(2)), tuple[str, Decimal])
    assert_type(await refund("1"), Decimal)
    charge("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await refund()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    try:
        charge({"id": "1"})
    except (InProgress, KeyReused, OutcomeUnknown, QuotaExceeded, StoreUnavailable) as error:
        assert_type(error.operation_id, str | None)
        assert_type(error.retry_after_s, int | None)
        assert_type(error.retryable, bool)


class Payment(BaseModel):
    """A model of the body."""

    amount: int


def selections_have_types() -> None:
    """A callable gets the request; a pydantic model is one too."""

    def what_counts(request: HttpRequest) -> list[str]:
        return [request.method, request.path]

    idempotent(operation="POST /payments", tenant=single_tenant(), fingerprint=what_counts)
    idempotent(operation="POST /payments", tenant=single_tenant(), fingerprint=Payment)
    idempotent(operation="POST /payments", tenant=single_tenant(), fingerprint=int)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def options_have_types(client: DynamoDBClient) -> None:
    """Every option that the documentation names."""
    idempotent(
        operation="POST /payments",
        tenant=lambda context: str(context.get("accountId")),
        principal=jwt_claim("sub"),
        fingerprint=lambda request: [request.method, request.path],
        methods=("POST", "PUT"),
        min_key_length=8,
        not_executed=(ConnectionRefusedError,),
        in_progress="wait",
        wait_up_to=timedelta(seconds=5),
        retention=timedelta(days=2),
        reconcile_grace=timedelta(minutes=2),
        problem_base="https://example.com/problems/",
        after_expiry="gone",
        gone_for=timedelta(days=7),
        preset=IETF,
        fingerprint_secrets=[b"a secret of sixteen bytes"],
        required=False,
        store_raw_key=False,
        store_when=lambda answer: answer["statusCode"] < 300,
        before_store=lambda answer: {**answer, "body": ""},
        response_version=2,
        upgrade_response=lambda answer, version: answer if version else {},
        store=DynamoDBStore("a-table", client=client, bucket=ResponseBucket("a-bucket")),
        clock=ManualClock(),
    )
    idempotent(operation="POST /payments", tenant=single_tenant(), store=MemoryStore())


@idempotent(operation="POST /rides", tenant=single_tenant(), effects="recorded")
def recorded(event: dict[str, Any], context: LambdaContext, op: Operation) -> Answer:
    """Steps keep the type of what they run; what is collected is checked by name."""
    op.transaction.put("rides", {"id": op.operation_id}, condition="attribute_not_exists(id)")
    op.transaction.update("seats", {"id": 7}, "ADD seats :less", values={":less": -1})
    op.transaction.check("cars", {"id": 7}, "car = :car", otherwise=Final(409, {"error": "gone"}))
    op.transaction.delete("offers", {"id": 7})
    assert_type(op.outbox.publish("ride.ordered", {"id": op.operation_id}), str)
    try:
        op.commit("ordered")
    except ConditionFailed as refused:
        assert_type(refused.writes[0].number, int)
    assert_type(op.step("charge", lambda: Decimal(12), idempotent=True), Decimal)
    return {"statusCode": 201, "body": f"{event}{context}"}


@idempotent(operation="POST /rides", tenant=single_tenant(), effects="recorded")
async def recorded_async(event: dict[str, Any], context: LambdaContext, op: Operation) -> Answer:
    """The same for coroutines."""

    async def charge() -> Decimal:
        return Decimal(12)

    assert_type(await op.step_async("charge", charge), Decimal)
    await op.commit_async("charged")
    return {"statusCode": 201, "body": f"{event}{context}"}


@resolver("POST /rides", "charge")
def what_became_of_it(question: Question) -> Completed | NotExecuted | StillUnknown:
    """A resolver gives one of its three answers, and stays what it is."""
    if question.started_at_ms:
        return StillUnknown(timedelta(minutes=1))
    return Completed(question.operation_id) if question.key else NotExecuted()


def a_resolver_stays(question: Question) -> None:
    """It can be called as it was."""
    assert_type(what_became_of_it(question), Completed | NotExecuted | StillUnknown)


def ledgers_are_compared(ours: list[tuple[str, int]], theirs: list[dict[str, Any]]) -> None:
    """A difference has the rows of both sides in their own types."""
    amount = LedgerField[tuple[str, int], dict[str, Any]](
        name="amount", ours=lambda row: row[1], theirs=lambda row: row["amount"]
    )
    with sorted_by_id(ours, id_of=lambda row: row[0]) as our_rows:
        comparison = compare_ledgers(
            our_rows,
            theirs,
            our_id=lambda row: row[0],
            their_id=lambda row: row["id"],
            fields=[amount],
        )
        for difference in comparison:
            if isinstance(difference, OnlyOurs):
                assert_type(difference.row, tuple[str, int])
            elif isinstance(difference, OnlyTheirs):
                assert_type(difference.row, dict[str, Any])
            else:
                assert_type(difference.ours, tuple[str, int])
                assert_type(difference.fields[0].theirs, object)
    assert_type(comparison.totals, LedgerTotals)


@webhook(
    operation="POST /webhooks",
    scheme=StripeSignature(tolerance=timedelta(minutes=1)),
    tenant=lambda delivery: delivery.id,
    secrets=lambda: [b"whsec_0123456789abcdef"],
)
def received(delivery: Delivery) -> Publish | None:
    """A webhook's function gets a delivery."""
    assert_type(delivery.body, bytes)
    assert_type(delivery.id, str)
    return Publish("received", {"id": delivery.id}) if delivery.body else None


def a_webhook_is_a_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """What is decorated is called with what Lambda gives."""
    assert_type(received(event, context), dict[str, Any])


def a_test(handler: Callable[[Any, Any], Any]) -> None:
    """The test kit: what it makes and returns."""
    clock = ManualClock()
    with use_store(MemoryStore(), clock=clock) as memory:
        assert_type(memory, MemoryStore)
        passed = let_time_pass(memory, clock, worker=handler, at_most=timedelta(hours=1))
        assert_type(passed.duration, timedelta)
    with use_store(CrashingStore(memory)) as crashing, crashing.crash("after complete"):
        assert_type(crashing, CrashingStore)
    with dynamodb_tables() as tables:
        assert_type(tables.records, str)
    event = api_event("POST /payments", key="k", body={"amount": 1}, claims={"tenant_id": "a"})
    assert_type(event, dict[str, Any])
    assert_type(sqs_event(memory.messages), dict[str, Any])
    assert_type(assert_idempotent(handler, event, effects=lambda: 1), list[str])


def a_store_of_ones_own() -> tuple[Store, OpenRecords, Clock]:
    """What a store and a clock of one's own must be."""
    return MemoryStore(), MemoryStore(), ManualClock()


def a_runner_of_jobs(jobs: Jobs) -> Topics:
    """`Jobs` is a `JobRunner`, which `Topics` takes."""
    runner: JobRunner = jobs
    return Topics({}, jobs=runner)


class AContract(StoreContract):
    """A store that is held against the contract."""

    def published(self, store: Store) -> list[str]:
        """The messages of this one."""
        return [] if store.has_outbox else [str(store)]
