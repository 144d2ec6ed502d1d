"""The one value that a transaction applies: its token, its payloads, and what its refusal means."""

from __future__ import annotations

import pytest

from oncekey import ConditionFailed, Final, TransactionInvalid
from oncekey.errors import RefusedWrite
from oncekey.record.business_write import BusinessWrite
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of, token
from oncekey.record.message import Message
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.store.store import Refused
from oncekey.testing.memory import MemoryStore
from tests.support.protected import is_replay
from tests.support.recorded import LEDGER, check, point, publish, put
from tests.support.steps import POST, Steps, caught

OPERATION = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER_OPERATION = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def write(number: int, otherwise: Final | None = None) -> BusinessWrite:
    """A write with this number."""
    return BusinessWrite(
        number=number,
        kind="put",
        table="rides",
        size_bytes=10,
        parameters={"TableName": "rides", "Item": {"id": {"S": "secret"}}},
        otherwise=otherwise,
    )


def message(payload: str = "{}", payload_ref: StoredRef | None = None) -> Message:
    """A message."""
    return Message(
        id="an-id",
        topic="topic",
        payload=payload,
        operation_id=OPERATION,
        operation="POST /payments",
        tenant="",
        created_at_ms=0,
        payload_ref=payload_ref,
    )


def refused(*numbers: int) -> ConditionsFailed:
    """The conditions of these writes failed."""
    return ConditionsFailed(tuple(RefusedWrite(each, "put", "rides", None) for each in numbers))


def test_a_token_is_pinned() -> None:
    """The same inputs give the same token in every release, so that a commit that was sent by one
    and is resent by the next is one commit to DynamoDB; it fits into the 36 characters allowed.
    """
    made = token(OPERATION, "owner", 0)

    assert made == "2caee863-4a5c-5a5c-9ff8-dd6db6a0b003"
    assert len(made) == 36


def test_a_token_differs_where_anything_does() -> None:
    """Operation, owner and number all count, and no two of them run together."""
    tokens = {
        token(operation, owner, number)
        for operation in (OPERATION, OTHER_OPERATION)
        for owner in ("owner", "owner 1", "other")
        for number in (0, 1, 10)
    }

    assert len(tokens) == 18


def test_what_is_claimed_is_kept_without_an_expiry() -> None:
    """Only payloads that are kept elsewhere are, byte for byte; the queue says how long."""
    at = StoredRef(place=Place.OBJECT, name="outbox/1", digest="d")

    (blob,) = claimed([message("1"), message('"é"', payload_ref=at)])

    assert (blob.at, blob.data, blob.expires_at_s) == (at, '"é"'.encode(), 0)


def test_the_first_otherwise_of_a_write_that_failed_is_the_answer() -> None:
    """A write that did not fail has no say, nor has the order in which DynamoDB reports."""
    answers = [Final(400), Final(404), Final(409)]
    writes = tuple(write(number, answer) for number, answer in enumerate(answers, start=1))
    commit = Commit(transition=None, token="", writes=(*writes, write(4)))

    assert error_of(commit, refused(3, 2)) is answers[1]
    assert error_of(commit, refused(4, 3)) is answers[2]
    without = error_of(commit, refused(4))
    assert isinstance(without, ConditionFailed)
    assert [each.number for each in without.writes] == [4]


def test_what_dynamodb_calls_invalid_is_told_in_its_words() -> None:
    """The reason is part of the message."""
    error = error_of(Commit(transition=None, token=""), Inapplicable("Syntax error; token: FOO"))

    assert isinstance(error, TransactionInvalid)
    assert str(error) == "DynamoDB refuses the transaction: Syntax error; token: FOO"


def test_no_repr_shows_what_is_written() -> None:
    """Writes, messages and what a condition met stay out of logs."""
    met = RefusedWrite(1, "put", "rides", {"id": "secret"})
    commit = Commit(transition=None, token="", writes=(write(1),), messages=(message('"secret"'),))

    shown = f"{commit!r} {met!r} {met} {write(1)} {message('secret')} {ConditionFailed((met,))!r}"
    assert "secret" not in shown
    assert "item 1 (put on rides)" in shown


def test_the_memory_store_lists_what_was_committed() -> None:
    """`MemoryStore` lists writes and messages in their order, of each commit once, and takes a
    commit a second time no more than DynamoDB does.
    """
    store = MemoryStore()
    service = Steps(store=store)

    answer = service.sends(put("a"), publish("one"), point("half"), check(), publish("two"))

    assert answer["statusCode"] == 201
    assert is_replay(service.send(POST))
    assert list(map(str, store.writes)) == [
        f"item 1 (put on {LEDGER})",
        f"item 1 (check on {LEDGER})",
    ]
    assert [each.topic for each in store.messages] == ["one", "two"]


@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_in_the_memory_store_conditions_hold_as_the_test_says(is_final: bool) -> None:
    """Where `holds` says no, nothing is applied, and the author is told as by DynamoDB; otherwise
    everything is.
    """
    closed: set[str] = {"check"}
    store = MemoryStore(holds=lambda each: each.kind not in closed)
    actions = [put("a"), check(otherwise=Final(409, "closed")), publish()]
    if not is_final:
        actions.append(point("made"))

    answer = Steps(store=store).sends(*actions)
    assert (answer["statusCode"], store.writes, store.messages) == (409, [], [])
    closed.clear()
    other = Steps(store=store, operation="POST /others")
    assert other.sends(*actions)["statusCode"] == 201

    assert (len(store.writes), len(store.messages)) == (2, 1)


def test_the_memory_store_refuses_a_commit_as_its_record_does() -> None:
    """The record's own condition comes before the author's, as in DynamoDB."""
    store = MemoryStore(holds=lambda _write: False)
    service = Steps(store=store)
    built: list[Commit] = []
    commit = store.commit

    def noting(whole: Commit) -> object:
        built.append(whole)
        return commit(whole)

    store.commit = noting  # type: ignore[method-assign, assignment]  # it notes, and passes on

    service.sends(put("a"), caught(point("made"), ConditionFailed))
    reply = commit(built[0])

    assert isinstance(reply, Refused)
    assert reply.record == service.record
    assert store.writes == []
