"""A sandbox that remembers completed answers gives them again without the store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey import ConfigurationError, Quota, idempotent, idempotent_function, single_tenant
from oncekey.engine.local_cache import LocalCache
from oncekey.errors import StoreError
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_body, with_key
from tests.support.function_calls import Calls
from tests.support.protected import Protected, headers_of, problem_of, while_running
from tests.support.records import NOW_MS, record
from tests.support.replacing import replace

POST = load("apigw_http_v2_post")
MINUTES_MS = 60_000


class CountingStore(MemoryStore):
    """Counts the requests that reach it."""

    calls = 0
    is_down = False

    def write(self, transition: Any) -> Any:
        """One write, if the store is not down."""
        self.calls += 1
        if self.is_down:
            raise StoreError("down", transient=True)
        return super().write(transition)

    def read(self, pk: str) -> Any:
        """One read."""
        self.calls += 1
        return super().read(pk)


def remembering(most: int = 2, **options: Any) -> Protected:
    """A handler in a sandbox that remembers so many answers."""
    return Protected(store=CountingStore(), local_cache=most, **options)


def test_a_repeat_is_answered_from_memory() -> None:
    """The answer is the stored one, marked as replayed, and no request reaches the store.

    Red when the memory is not asked, or the answer of its own completion is not remembered.
    """
    service = remembering()
    first = service.send(POST)
    asked = service.store.calls

    again = service.send(POST)

    assert service.store.calls == asked
    assert len(service.runs) == 1
    assert again["body"] == first["body"]
    assert headers_of(again)["idempotent-replayed"] == "true"


def test_an_answer_that_was_read_once_is_remembered() -> None:
    """A sandbox that did not run the handler asks the store once, and not again."""
    first = remembering()
    first.send(POST)
    other = Protected(store=first.store, clock=first.clock, local_cache=2)
    other.send(POST)
    asked = first.store.calls

    other.send(POST)

    assert first.store.calls == asked
    assert other.runs == []


def test_another_request_under_the_key_is_refused_from_memory_too() -> None:
    """The fingerprint counts as it does with a record from the store."""
    service = remembering()
    service.send(POST)

    assert problem_of(service.send(with_body(POST, '{"amount": 2}'))) == (422, "key-reused", False)


def test_nothing_is_remembered_by_default() -> None:
    """Without the option, every repeat asks the store."""
    service = Protected(store=CountingStore())
    service.send(POST)
    asked = service.store.calls

    service.send(POST)

    assert service.store.calls > asked


def test_what_has_expired_runs_again() -> None:
    """The memory gives no answer for longer than the record says."""
    service = remembering(retention=timedelta(minutes=1))
    service.send(POST)
    service.clock.advance(MINUTES_MS + 2_000)

    service.send(POST)

    assert len(service.runs) == 2


@pytest.mark.parametrize("change_ms", [5 * MINUTES_MS, -1])
def test_a_memory_is_believed_for_five_minutes(change_ms: int) -> None:
    """What a person does to a record is seen everywhere after that; a clock set back asks at once.

    Red when only the expiry of the record bounds the belief.
    """
    service = remembering()
    service.send(POST)
    service.store.records.clear()
    service.clock.advance(change_ms)

    service.send(POST)

    assert len(service.runs) == 2


@pytest.mark.parametrize(
    ("later_ms", "is_known"), [(-1, False), (0, True), (299_999, True), (300_000, False)]
)
def test_a_memory_begins_when_it_is_read_and_lasts_less_than_five_minutes(
    later_ms: int, is_known: bool
) -> None:
    """A clock that was set back ends it, too."""
    cache = LocalCache(1)
    completed = record(status=Status.COMPLETED)

    cache.remember(completed, NOW_MS)

    assert (cache.find(completed.pk, NOW_MS + later_ms) is completed) is is_known


def test_the_oldest_answer_is_forgotten_first() -> None:
    """The memory is bounded by the number of answers."""
    service = remembering(most=2)
    events = [with_key(POST, f"a-key-with-the-number-{number}") for number in range(3)]
    for event in events:
        service.send(event)
    asked = service.store.calls

    service.send(events[2])
    service.send(events[1])
    assert service.store.calls == asked
    service.send(events[0])
    assert service.store.calls > asked


def test_what_is_not_completed_is_never_remembered() -> None:
    """A running request, a failure and an unknown outcome are asked for anew each time."""
    service = remembering()
    assert while_running(service, POST, lambda: service.send(POST))["statusCode"] == 409
    service.then = lambda _event, _op: {"statusCode": 503}
    event = with_key(POST, "another-key-of-a-request")
    service.send(event)

    assert problem_of(service.send(event)) == (409, "outcome-unknown", True)
    assert service.send(POST)["statusCode"] == 201


def test_what_is_remembered_for_another_caller_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered with 503, as if it stood in the store, and raises nothing.

    Red when the memory is asked where nobody expects a failure.
    """
    service = remembering()
    service.send(POST)
    (record,) = service.store.records.values()
    foreign = replace(record, tenant="another")
    monkeypatch.setattr(LocalCache, "find", lambda _self, _pk, _now_ms: foreign)

    assert problem_of(service.send(POST))[:2] == (503, "store-unavailable")


def test_a_repeat_from_memory_counts_as_a_look_up() -> None:
    """A quota of look-ups holds for answers from memory."""
    service = remembering(quota=Quota(lookups=1))
    service.send(POST)

    assert [service.send(POST)["statusCode"] for _ in range(2)] == [201, 429]


def test_what_is_remembered_says_nothing_about_the_store() -> None:
    """In an outage, repeats from memory are answered, and the breaker opens for the others.

    Red when an answer from memory counts as one of the store, or is refused by the breaker.
    """
    service = remembering()
    service.send(POST)
    service.store.is_down = True
    others = [with_key(POST, f"another-key-number-{number}") for number in range(4)]

    statuses = [service.send(event)["statusCode"] for other in others for event in (other, POST)]
    assert statuses == [503, 201] * 4
    asked = service.store.calls
    assert service.send(others[0])["statusCode"] == 503
    assert service.store.calls == asked
    assert service.send(POST)["statusCode"] == 201


def test_a_function_gives_its_result_from_memory() -> None:
    """Functions remember their results in the same way."""
    store = CountingStore()
    calls = Calls(store=store, local_cache=5)
    result = calls.call({"id": "a"})
    asked = store.calls

    assert calls.call({"id": "a"}) == result
    assert store.calls == asked


@pytest.mark.parametrize("number", [-1, True, "many", 100_001])
def test_a_number_that_makes_no_sense_is_refused(number: Any) -> None:
    """Both decorators say what number is possible."""
    says = "local_cache is .*: a number of answers up to 100,000"
    with pytest.raises(ConfigurationError, match=says):
        idempotent(operation="POST /x", tenant=single_tenant(), local_cache=number)
    with pytest.raises(ConfigurationError, match=says):
        idempotent_function(operation="f", key="id", tenant=single_tenant(), local_cache=number)
