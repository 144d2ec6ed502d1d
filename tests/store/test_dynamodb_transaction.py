"""A commit as a TransactWriteItems request, and what each of DynamoDB's refusals of it means."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore import exceptions
from botocore.validate import ParamValidator

from oncekey.errors import RefusedWrite, StoreError
from oncekey.record.business_write import BusinessWrite
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
from oncekey.record.counter import Count, Counter, RefusedCount
from oncekey.record.message import Message
from oncekey.record.record import Effects
from oncekey.record.stored_answer import Blob, Place, StoredRef
from oncekey.record.transitions import Complete, Ending, FinishStep, Reserve, Transition
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.store.dynamodb.transaction import cancellation, transaction_parameters
from oncekey.store.store import Refused
from tests.support.records import NOW_MS, NOW_S, REACHED, record


class OddError(Exception):
    """What a client of the user's own may raise."""


FAILED = "ConditionalCheckFailed"
RECORD = record(effects=Effects.RECORDED)
ENDING = Ending(response="{}", completed_at_ms=NOW_MS, expires_at_s=NOW_S + 1)
COMPLETE = Complete(pk=RECORD.pk, owner=RECORD.owner, ending=ENDING)
FENCES: dict[str, Transition | None] = {
    "completion": COMPLETE,
    "recovery point": FinishStep(pk=RECORD.pk, owner=RECORD.owner, step=REACHED, mark=None),
    "reserve": Reserve(record=RECORD, now_ms=NOW_MS),
    "none": None,
}
ANSWER = Blob(
    at=StoredRef(place=Place.ITEM, name="pk#owner", digest="d"), data=b"answer", expires_at_s=7
)
RESULT = StoredRef(place=Place.ITEM, name="pk#owner#charge", digest="d")


def write(number: int, kind: str) -> BusinessWrite:
    """A write of this kind to a row of its own."""
    key = {"id": {"S": f"row-{number}"}}
    own: dict[str, dict[str, Any]] = {
        "put": {"Item": key},
        "update": {
            "Key": key,
            "UpdateExpression": "SET a = :a",
            "ExpressionAttributeValues": {":a": {"N": "1"}},
        },
        "delete": {"Key": key},
        "check": {"Key": key, "ConditionExpression": "attribute_exists(id)"},
    }
    parameters = {"TableName": "rides", **own[kind]}
    return BusinessWrite(
        number=number, kind=kind, table="rides", size_bytes=0, parameters=parameters
    )


WRITES = tuple(
    write(number, kind) for number, kind in enumerate(["put", "update", "delete", "check"], start=1)
)
MESSAGE = Message(
    id="an-id",
    topic="topic",
    payload="{}",
    operation_id=RECORD.operation_id,
    operation="POST /rides",
    tenant="acme",
    created_at_ms=NOW_MS,
)


def commit(transition: Transition | None = COMPLETE, **changes: Any) -> Commit:
    """A commit with everything that one can have."""
    whole: dict[str, Any] = {
        "writes": WRITES,
        "messages": (MESSAGE,),
        "companion": ANSWER,
        "expiring": ((RESULT, 9),),
    }
    return Commit(transition=transition, token="a-token", **{**whole, **changes})


@pytest.mark.parametrize("transition", FENCES.values(), ids=FENCES)
def test_a_commit_is_a_request_that_the_service_model_knows(transition: Transition | None) -> None:
    """Botocore's own validation takes the parameters, which our client leaves out at run time."""
    client = boto3.client("dynamodb", region_name="eu-central-1")
    shape = client.meta.service_model.operation_model("TransactWriteItems").input_shape
    assert shape is not None

    parameters = transaction_parameters("records", "outbox", commit(transition))

    report = ParamValidator().validate(parameters, shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize(
    ("name", "first"), [("completion", "Update"), ("recovery point", "Update"), ("reserve", "Put")]
)
def test_the_records_own_action_is_the_first(name: str, first: str) -> None:
    """It bears the record's condition and returns what it met, and so do the author's, in the order
    of collection; messages, the answer's item and expiring results come after.
    """
    parameters = transaction_parameters("records", "outbox", commit(FENCES[name]))

    actions = parameters["TransactItems"]
    kinds = [next(iter(each)) for each in actions]
    assert kinds == [first, "Put", "Update", "Delete", "ConditionCheck", "Put", "Put", "Update"]
    whole = [next(iter(each.values())) for each in actions]
    assert [each["TableName"] for each in whole] == [
        *("records", "rides", "rides", "rides", "rides", "outbox", "records", "records")
    ]
    assert "ConditionExpression" in whole[0]
    returned = [each.get("ReturnValuesOnConditionCheckFailure") for each in whole]
    assert returned == ["ALL_OLD"] * 5 + [None] * 3
    assert parameters["ClientRequestToken"] == "a-token"


def test_without_a_record_the_first_action_is_the_authors() -> None:
    """A bare run has nothing to fence with."""
    bare = commit(None, companion=None, expiring=())

    actions = transaction_parameters("records", "outbox", bare)["TransactItems"]

    assert [next(iter(each)) for each in actions][:2] == ["Put", "Update"]
    assert actions[0]["Put"]["TableName"] == "rides"


def test_equal_commits_make_equal_bytes() -> None:
    """Built twice, from equal values, the parameters come in one order."""
    one, other = (
        json.dumps(transaction_parameters("r", "o", commit(companion=None))) for _ in "12"
    )

    assert one == other


def refusal(code: str, *reasons: Any, message: str = "said so") -> exceptions.ClientError:
    """The exception that botocore raises for this answer."""
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    whole = [{"Code": each} if isinstance(each, str) else each for each in reasons]
    if reasons:
        answer["CancellationReasons"] = whole
    return exceptions.ClientError(answer, "TransactWriteItems")


def cancelled(*reasons: Any) -> exceptions.ClientError:
    """A cancelled transaction."""
    return refusal("TransactionCanceledException", *reasons)


MET = {"Code": FAILED, "Item": attribute_values(RECORD)}
ROW = {"Code": FAILED, "Item": {"id": {"S": "row-2"}, "seats": {"N": "0"}}}
REPLIES: dict[str, tuple[exceptions.ClientError, Any]] = {
    "the record's condition": (cancelled(MET, "None", "None"), Refused(RECORD)),
    "a record that is gone": (cancelled(FAILED, "None"), Refused(None)),
    "the record's before all others": (
        cancelled(MET, FAILED, ROW, "TransactionConflict", "ValidationError"),
        Refused(RECORD),
    ),
    "an author's condition": (
        cancelled("None", "None", ROW),
        ConditionsFailed((RefusedWrite(2, "update", "rides", {"id": "row-2", "seats": 0}),)),
    ),
    "several, in their order": (
        cancelled("None", FAILED, "None", "None", FAILED),
        ConditionsFailed(
            (RefusedWrite(1, "put", "rides", None), RefusedWrite(4, "check", "rides", None))
        ),
    ),
    "an author's condition before a conflict elsewhere": (
        cancelled("None", "TransactionConflict", ROW),
        ConditionsFailed((RefusedWrite(2, "update", "rides", {"id": "row-2", "seats": 0}),)),
    ),
    "a write that is invalid": (
        cancelled("None", "None", {"Code": "ValidationError", "Message": "no number"}),
        Inapplicable("item 2 (update on rides): ValidationError: no number"),
    ),
    "an item collection that is full": (
        cancelled("None", "ItemCollectionSizeLimitExceeded"),
        Inapplicable("item 1 (put on rides): ItemCollectionSizeLimitExceeded: "),
    ),
    "a message's": (
        cancelled(*["None"] * 5, FAILED),
        Inapplicable(f"message to topic: {FAILED}: "),
    ),
    "the answer's item": (
        cancelled(*["None"] * 6, {"Code": "ValidationError", "Message": "too large"}),
        Inapplicable("an item of oncekey's own: ValidationError: too large"),
    ),
    "a wrong expression": (refusal("ValidationException", message="FOO"), Inapplicable("FOO")),
    "no reasons": (
        cancelled(),
        Inapplicable("DynamoDB cancelled the transaction and gave no reason"),
    ),
}


@pytest.mark.parametrize(("error", "reply"), REPLIES.values(), ids=REPLIES)
def test_what_a_refusal_means(error: exceptions.ClientError, reply: Any) -> None:
    """The record's own reason counts first, then the author's conditions, then what nobody can
    apply, which is named.
    """
    assert cancellation(error, commit()) == reply


def test_without_a_record_every_reason_is_the_authors() -> None:
    """The first reason of a bare run is that of its first write."""
    reply = cancellation(cancelled(FAILED, "None"), commit(None))

    assert reply == ConditionsFailed((RefusedWrite(1, "put", "rides", None),))


AGAIN: dict[str, tuple[Exception, str | None]] = {
    "the record is held": (cancelled("TransactionConflict", "None"), "conflict"),
    "the record is held, and a condition failed": (
        cancelled("TransactionConflict", FAILED),
        "conflict",
    ),
    "a row is held": (cancelled("None", "TransactionConflict"), "conflict"),
    "a row is throttled": (cancelled("None", "ThrottlingError"), "throttled"),
    "too little capacity": (cancelled("None", "ProvisionedThroughputExceeded"), "throttled"),
    "a conflict and a fault": (
        cancelled("None", "ValidationError", "TransactionConflict"),
        "conflict",
    ),
    "in progress": (refusal("TransactionInProgressException"), "in-progress"),
    "throttled": (refusal("ThrottlingException"), "throttled"),
    "an error of DynamoDB's": (refusal("InternalServerError"), None),
    "no answer": (exceptions.ReadTimeoutError(endpoint_url="https://somewhere.example"), None),
    "an error of a client that nobody knows": (OddError("whatever"), None),
}


@pytest.mark.parametrize(("error", "contention"), AGAIN.values(), ids=AGAIN)
def test_what_is_sent_again(error: Exception, contention: str | None) -> None:
    """What passes by itself, or was perhaps applied, and whether others are the reason."""
    with pytest.raises(StoreError) as raised:
        cancellation(error, commit())

    assert raised.value.transient
    assert raised.value.contention == contention


@pytest.mark.parametrize(
    "code",
    ["AccessDeniedException", "ResourceNotFoundException", "IdempotentParameterMismatchException"],
)
def test_what_is_not_sent_again(code: str) -> None:
    """What only a change of the deployment helps, or what must never happen."""
    with pytest.raises(StoreError, match=code) as raised:
        cancellation(refusal(code), commit())

    assert not raised.value.transient
    assert raised.value.contention is None


COUNT = Count(name="quota#1", tenant="acme", limit=1, expires_at_s=9)
COUNTED = Commit(transition=FENCES["reserve"], token="a-token", counts=(COUNT, COUNT))
FULL = {"Code": FAILED, "Item": {"count": {"N": "1"}, "expires_at": {"N": "9"}}}


@pytest.mark.requirement("C15")
def test_counters_are_judged_after_the_record() -> None:
    """A record in the way comes first, then a full counter, and last that others are counting.

    Red when a key that exists is told of its tenant's quota.
    """
    full = RefusedCount(COUNT, Counter(count=1, expires_at_s=9))

    assert cancellation(cancelled(MET, FULL, FULL), COUNTED) == Refused(RECORD)
    assert cancellation(cancelled("None", "TransactionConflict", FULL), COUNTED) == (
        ConditionsFailed((), (full,))
    )
    assert cancellation(cancelled("None", FAILED, "None"), COUNTED) == (
        ConditionsFailed((), (RefusedCount(COUNT, None),))
    )


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError"])
def test_contention_at_a_counter_is_told_apart(code: str) -> None:
    """One tenant's burst is no failure of the store: it is told apart from one at the record."""
    with pytest.raises(StoreError) as raised:
        cancellation(cancelled("None", "None", code), COUNTED)
    assert (raised.value.contention, raised.value.is_harmless) == ("counter", True)

    with pytest.raises(StoreError) as raised:
        cancellation(cancelled(code, "None", code), COUNTED)
    assert raised.value.contention != "counter"


def test_a_parameter_that_botocore_refuses_is_not_repeated() -> None:
    """Its own text names the value; the author is told the kind of fault."""
    error = exceptions.ParamValidationError(report="Invalid type, value: 4242secret")

    assert cancellation(error, commit()) == Inapplicable(
        "a parameter has a type that DynamoDB does not take"
    )
