"""What is answered while a request runs, or the store is away, and in whose words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from oncekey import IETF, STRIPE
from oncekey.errors import StoreError
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import dynamodb_table, store_on
from tests.support.events import load, with_body, with_key
from tests.support.protected import (
    SHAPES,
    Answer,
    Protected,
    answers,
    fails,
    headers_of,
    is_replay,
    problem_of,
    while_running,
)

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_running_request_can_be_answered_as_accepted(shape: str) -> None:
    """With `in_progress="accepted"` a repeat of a running request is 202 with the operation's id,
    its Location and Retry-After; once it has ended, the answer itself.

    Red when 409 is answered, the id is another, or a finished request is still "accepted".
    """
    event = load(shape)
    service = Protected(in_progress="accepted")

    accepted = while_running(service, event, lambda: service.send(event))
    misuse = while_running(
        service,
        with_key(event, "another-key-00001"),
        lambda: service.send(with_body(with_key(event, "another-key-00001"), '{"amount": 2}')),
    )

    operation_id = service.runs[0].operation_id
    body = json.loads(accepted["body"])
    headers = headers_of(accepted)
    assert accepted["statusCode"] == 202
    assert body == {
        "operation_id": operation_id,
        "status": "in_progress",
        "retry_after_s": int(headers["retry-after"]),
    }
    assert headers["location"] == f"/operations/{operation_id}"
    assert int(headers["retry-after"]) >= 1
    assert is_replay(service.send(event))
    assert problem_of(misuse)[:2] == (422, "key-reused")


def test_an_unknown_outcome_is_never_accepted() -> None:
    """With `in_progress="accepted"` a request that was interrupted is still a conflict: nobody
    works on it.

    Red when every open state is answered 202.
    """
    service = Protected(in_progress="accepted")
    service.then = fails(ValueError())
    with pytest.raises(ValueError, match="^$"):
        service.send(POST)

    assert problem_of(service.send(POST))[:2] == (409, "outcome-unknown")


class AwayStore(MemoryStore):
    """A store that can be away, and counts the calls that reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.error = StoreError("ConnectionError", transient=True)
        self.calls = 0

    def write(self, transition: Transition) -> Written | Refused:
        """Or not."""
        self._called()
        return super().write(transition)

    def read(self, pk: str) -> Record | None:
        """Or not."""
        self._called()
        return super().read(pk)

    def _called(self) -> None:
        self.calls += 1
        if self.is_away:
            raise self.error


@pytest.mark.parametrize("contention", ["conflict", "in-progress"])
def test_a_key_in_a_transaction_is_in_progress_and_no_outage(contention: str) -> None:
    """A key that a transaction is writing is answered 409, however often: the store is there."""
    store = AwayStore()
    service = Protected(store=store)
    store.error = StoreError("a transaction", transient=True, contention=contention)
    store.is_away = True

    told = [problem_of(service.send(POST)) for _ in range(4)]

    assert told == [(409, "request-in-progress", True)] * 4
    store.is_away = False
    assert service.send(POST)["statusCode"] == 201


@pytest.mark.requirement("C9")
def test_after_some_failures_the_store_is_left_alone_for_a_while() -> None:
    """Three requests in a row that the store failed: the next ones are refused at once, without a
    call, and told when to come back; after five seconds one tries, and its failure counts anew.
    Nothing runs. The alarm on the outage is the deployment's, not the layer's.

    Red when each request of an outage waits for the store, or nobody ever tries again.
    """
    store = AwayStore()
    service = Protected(store=store)
    store.is_away = True
    for _ in range(3):
        assert problem_of(service.send(POST))[:2] == (503, "store-unavailable")
    calls = store.calls

    at_once = service.send(POST)
    service.clock.advance(4_000)
    later = service.send(POST)
    assert store.calls == calls
    assert problem_of(at_once) == problem_of(later) == (503, "store-unavailable", True)
    assert [headers_of(answer)["retry-after"] for answer in (at_once, later)] == ["5", "1"]

    service.clock.advance(1_000)
    service.send(POST)
    assert store.calls > calls
    calls = store.calls
    service.send(POST)
    assert store.calls == calls
    assert service.runs == []


def test_the_first_good_answer_ends_the_waiting() -> None:
    """The store is back when one request tries: it runs, and so do all after it at once.

    Red when the breaker stays open after a success, or counts failures that are not in a row.
    """
    store = AwayStore()
    service = Protected(store=store)
    store.is_away = True
    for _ in range(3):
        service.send(POST)
    store.is_away = False
    service.clock.advance(5_000)

    assert service.send(POST)["statusCode"] == 201
    for number in range(5):
        store.is_away = number % 2 == 0
        service.send(with_key(POST, f"key-of-request-{number}"))
    store.is_away = False
    assert service.send(with_key(POST, "key-of-the-last-one"))["statusCode"] == 201


def test_stores_that_are_away_do_not_stop_others() -> None:
    """The breaker is one store's: operations of it share it, those of another do not know of it.

    Red when the breaker is global, or each operation finds out for itself.
    """
    store = AwayStore()
    broken = Protected(store=store)
    sibling = Protected(store=store, operation="POST /refunds")
    other = Protected(store=AwayStore())
    store.is_away = True
    for _ in range(3):
        broken.send(POST)
    for service in (sibling, other):
        service.clock.advance(broken.clock.now_ms() - service.clock.now_ms())
    calls = store.calls

    assert problem_of(sibling.send(POST))[:2] == (503, "store-unavailable")
    assert store.calls == calls
    assert other.send(POST)["statusCode"] == 201


@pytest.mark.requirement("D11")
@pytest.mark.parametrize("preset", [IETF, STRIPE], ids=["ietf", "stripe"])
def test_domain_conflicts_misuse_and_infrastructure_are_told_apart(preset: Any) -> None:
    """The business's own 409, another request under the key, a running request, an unknown outcome
    and a store that is away have each an answer of their own, with a code.

    Red when two of them look the same to a client.
    """
    store = AwayStore()
    service = Protected(preset=preset, store=store)
    service.then = answers(409, '{"code": "slot-taken"}')
    domain = service.send(POST)
    misuse = service.send(with_body(POST, '{"amount": 2}'))
    running_event = with_key(POST, "key-that-is-running")
    running = while_running(service, running_event, lambda: service.send(running_event))
    unknown_event = with_key(POST, "key-that-is-unknown")
    service.then = fails(SystemExit())
    with pytest.raises(SystemExit):
        service.send(unknown_event)
    unknown = service.send(unknown_event)
    store.is_away = True
    away = service.send(POST)

    kinds = [kind_of(answer) for answer in (domain, misuse, running, unknown, away)]
    assert domain["body"] == '{"code": "slot-taken"}'
    assert len({code for _, code in kinds}) == 5
    assert [status for status, _ in kinds] == [409, 400 if preset is STRIPE else 422, 409, 409, 503]


def kind_of(answer: Answer) -> tuple[int, str]:
    """Status and code, wherever the preset puts it."""
    body = json.loads(answer["body"])
    error = body.get("error", body)
    return answer["statusCode"], str(error.get("code") or error.get("type"))


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_reused_key_has_the_status_of_the_preset(shape: str) -> None:
    """Another request under a used key: the draft's 422 by default, Stripe's 400 by preset.

    Red when the preset is not asked, or the two are mixed up.
    """
    event = load(shape)
    other = with_body(event, '{"amount": 2}')
    draft, stripe = Protected(), Protected(preset=STRIPE)
    for service in (draft, stripe):
        service.send(event)

    assert problem_of(draft.send(other)) == (422, "key-reused", False)
    assert kind_of(stripe.send(other)) == (400, "idempotency_key_reused")


@pytest.mark.requirement("D13")
def test_a_restart_of_everything_loses_no_record_and_no_answer() -> None:
    """A new client, store, decorator and clock on the same table replay, refuse and remember doubt
    as before: nothing of it was in the process.

    Red when anything that a repeat needs is kept in memory.
    """
    with dynamodb_table() as table:
        before = Protected(store=store_on(table))
        first = before.send(POST)
        unknown_event = with_key(POST, "key-that-is-unknown")
        before.then = fails(SystemExit())
        with pytest.raises(SystemExit):
            before.send(unknown_event)
        del before
        client: Any = boto3.client("dynamodb", region_name="eu-central-1")
        after = Protected(store=store_on(client))

        assert after.send(POST)["body"] == first["body"]
        assert problem_of(after.send(with_body(POST, "{}")))[:2] == (422, "key-reused")
        assert problem_of(after.send(unknown_event))[:2] == (409, "outcome-unknown")
        assert after.runs == []
