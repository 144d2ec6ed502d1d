"""What an operator has paused begins nothing new, and loses nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import STRIPE, NotExecuted, Paused, StoreError, jwt_claim
from oncekey.record.pause import EVERYTHING, Pause, PauseScope
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from tests.support.abandoned import HOLD, Abandoned
from tests.support.accepted import Accepted
from tests.support.events import load, with_header
from tests.support.function_calls import Calls
from tests.support.hooks import Hook, status_of
from tests.support.protected import Protected, headers_of, is_replay, problem_of
from tests.support.steps import FAILED, commit, step

if TYPE_CHECKING:
    from tests.support.protected import Answer

REASON = "The provider is down."
OPERATION = "POST /payments"
PAUSED = (503, "paused", True)
CHECK_MS = 10_000
POST = load("apigw_http_v2_post")
CHARGE = step("charge", "c-1")


@pytest.fixture(autouse=True)
def _pauses_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEKEY_PAUSE_CHECK_S", str(CHECK_MS // 1000))


class CountingStore(MemoryStore):
    """A store that counts what it is asked, and does not answer while it `is_down`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.is_down = False

    def read(self, pk: str) -> Any:
        """As the memory store's."""
        self.asked["read"] += 1
        return super().read(pk)

    def pauses(self) -> tuple[Pause, ...]:
        """As the memory store's, or no answer."""
        self.asked["pauses"] += 1
        if self.is_down:
            raise StoreError("no answer", transient=True)
        return super().pauses()


def pause(service: Any, name: str = OPERATION, scope: PauseScope = PauseScope.OPERATION) -> None:
    """Pause `name`, as an operator does."""
    stop = Pause(scope=scope, name=name, reason=REASON, by="ops", since_ms=service.clock.now_ms())
    service.store.pause(stop)
    service.clock.advance(CHECK_MS)


def resume(service: Any, name: str = OPERATION) -> None:
    """End the pause."""
    assert service.store.resume(PauseScope.OPERATION, name) is not None
    service.clock.advance(CHECK_MS)


def other_key(event: dict[str, Any] = POST) -> dict[str, Any]:
    """The same request with another key."""
    return with_header(event, "Idempotency-Key", "another-key-of-a-client")


def test_a_new_key_of_a_paused_operation_is_refused_with_the_operators_reason() -> None:
    """The client gets 503 `paused`, the reason, and when to come back; nothing is written."""
    service = Protected()
    pause(service)

    answer = service.send(POST)

    assert problem_of(answer) == PAUSED
    assert json.loads(answer["body"])["detail"] == f"New work is paused: {REASON}"
    assert headers_of(answer)["retry-after"] == "30"
    assert (service.runs, service.store.records) == ([], {})


def test_a_key_that_exists_gets_its_answer_during_a_pause() -> None:
    """Only new work is stopped: a client that lost its answer gets it."""
    service = Protected()
    service.send(POST)
    pause(service)

    assert is_replay(service.send(POST))
    assert problem_of(service.send(other_key())) == PAUSED


def test_after_the_end_of_the_pause_the_refused_key_runs() -> None:
    """The refusal has not used the key up."""
    service = Protected()
    pause(service)
    service.send(POST)
    resume(service)

    assert service.send(POST)["statusCode"] == 201


def test_a_paused_tenant_stops_nobody_else() -> None:
    """A tenant's pause concerns all its operations, and no other tenant."""
    service = Protected(tenant=jwt_claim("tenant_id"))
    tenant = POST["requestContext"]["authorizer"]["jwt"]["claims"]["tenant_id"]
    pause(service, "somebody-else", PauseScope.TENANT)
    assert service.send(POST)["statusCode"] == 201

    pause(service, tenant, PauseScope.TENANT)

    assert problem_of(service.send(other_key())) == PAUSED


def test_everything_can_be_paused_at_once() -> None:
    """One pause stops all operations and tenants of the table."""
    service = Protected()
    pause(service, EVERYTHING, PauseScope.ALL)

    assert problem_of(service.send(POST)) == PAUSED


def test_work_that_failed_is_not_resumed_during_a_pause() -> None:
    """A retry that would run the handler is refused as well, and its record stays as it is."""
    service = Protected()

    def refused(_event: object, _op: object) -> Answer:
        raise NotExecuted

    service.then = refused
    service.send(POST)
    (before,) = service.store.records.values()
    pause(service)

    assert problem_of(service.send(POST)) == PAUSED
    assert list(service.store.records.values()) == [before]


def test_a_dead_attempt_is_not_taken_over_during_a_pause() -> None:
    """A takeover runs the handler, so it waits for the end of the pause, too."""
    service = Abandoned()
    service.dies(HOLD)
    service.lets_the_lease_run_out()
    before = service.record
    pause(service)

    assert problem_of(service.sends(HOLD, CHARGE)) == PAUSED
    assert service.record == before
    resume(service)
    assert service.sends(HOLD, CHARGE)["statusCode"] == 201
    assert service.ran == ["hold", "charge"]


def test_a_sandbox_asks_once_in_the_time_that_it_may_believe_what_it_read() -> None:
    """Each check costs one read for all operations and tenants of a sandbox."""
    store = CountingStore()
    service = Protected(store=store)
    for number in range(3):
        service.send(with_header(POST, "Idempotency-Key", f"key-number-{number:08}"))
    service.clock.advance(CHECK_MS - 1)
    service.send(with_header(POST, "Idempotency-Key", "key-number-3-late"))
    assert store.asked == {"pauses": 1}

    service.clock.advance(1)
    service.send(other_key())

    assert store.asked == {"pauses": 2}


def test_a_clock_that_is_set_back_prolongs_no_belief() -> None:
    """What was read in the future is read again."""
    store = CountingStore()
    service = Protected(store=store)
    service.send(POST)
    service.clock.advance(-1)
    service.send(other_key())

    assert store.asked["pauses"] == 2


def test_without_the_variable_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a request costs what it has always cost, and nothing can be paused."""
    monkeypatch.delenv("ONCEKEY_PAUSE_CHECK_S")
    store = CountingStore()
    service = Protected(store=store)
    pause(service)

    assert service.send(POST)["statusCode"] == 201
    assert store.asked == {}


def test_nothing_new_begins_while_nobody_knows_what_is_paused() -> None:
    """A store that does not answer refuses, as it does for the reserve."""
    store = CountingStore()
    service = Protected(store=store)
    store.is_down = True

    assert problem_of(service.send(POST)) == (503, "store-unavailable", True)
    assert service.runs == []


@pytest.mark.parametrize(("method", "status"), [("POST", 503), ("GET", 201)])
def test_a_request_without_a_key_is_paused_if_it_changes_something(
    method: str, status: int
) -> None:
    """With `required=False`, a client that sends no key is stopped as well; a look is not."""
    service = Protected(required=False)
    pause(service)
    event = json.loads(json.dumps(POST))
    event["headers"].pop("idempotency-key")
    event["requestContext"]["http"]["method"] = method

    assert service.send(event)["statusCode"] == status


def test_the_stripe_preset_asks_for_a_retry() -> None:
    """Its clients retry with the same key."""
    service = Protected(preset=STRIPE)
    pause(service)

    answer = service.send(POST)

    assert (answer["statusCode"], headers_of(answer)["stripe-should-retry"]) == (503, "true")
    assert json.loads(answer["body"])["error"]["code"] == "paused"


def test_a_paused_function_raises_and_does_not_run() -> None:
    """The error has the reason and the time; the same call runs after the pause."""
    calls = Calls()
    pause(calls, "charge")

    with pytest.raises(Paused, match=REASON) as raised:
        calls.call({"id": "1"})

    assert (calls.runs, raised.value.retry_after_s, raised.value.retryable) == ([], 30, True)
    resume(calls, "charge")
    calls.call({"id": "1"})
    assert len(calls.runs) == 1


def test_a_paused_operation_accepts_no_job() -> None:
    """A queued request is refused, and not accepted for after the pause."""
    service = Accepted()
    pause(service, "POST /reports")

    assert problem_of(service.send(service.event)) == PAUSED
    assert service.messages == []


def test_an_accepted_job_waits_and_is_done_after_the_pause() -> None:
    """Its worker raises, so that the queue keeps the message; its client still gets 202."""
    service = Accepted()
    service.sends(CHARGE)
    pause(service, "POST /reports")

    with pytest.raises(Paused):
        service.works()

    assert (service.ran, service.record.status) == ([], Status.PENDING)
    resume(service, "POST /reports")
    service.works()
    assert (service.ran, service.record.status) == (["charge"], Status.COMPLETED)


def test_a_webhook_that_is_paused_is_sent_again_by_its_sender() -> None:
    """A new event gets 503 with `Retry-After`, and a repeat of an accepted one its 200."""
    hook = Hook()
    hook.send("evt_1")
    pause(hook, "POST /webhooks")

    assert problem_of(hook.send("evt_2")) == PAUSED
    assert headers_of(hook.send("evt_2"))["retry-after"] == "30"
    assert status_of(hook.send("evt_1")) == "repeat"
    assert len(hook.store.messages) == 1
    resume(hook, "POST /webhooks")
    assert status_of(hook.send("evt_2")) == "accepted"


def test_an_expired_event_is_new_during_a_pause() -> None:
    """A 2xx would lose it: its record is over, and its message was not written again."""
    hook = Hook()
    hook.send("evt_1")
    hook.clock.advance(32 * 24 * 3_600_000)
    pause(hook, "POST /webhooks")

    assert problem_of(hook.send("evt_1")) == PAUSED


def test_the_reconciler_hands_paused_work_to_nobody_and_counts_no_turn() -> None:
    """Half-done work waits for the end of the pause, however long that is, and is then done."""
    service = Abandoned()
    service.sends(HOLD, commit("held"), ends=FAILED)
    service.handles(HOLD, commit("held"), CHARGE)
    pause(service)
    before = service.record

    for _ in range(3):
        assert service.reconciles(max_attempts=2).handed_back == 0

    assert service.messages == []
    assert service.record.reconcile_attempts == before.reconcile_attempts
    resume(service)
    assert service.reconciles().handed_back == 1
    service.works()
    assert service.ran == ["hold", "charge"]


def test_the_reconciler_ends_dead_attempts_of_a_paused_operation() -> None:
    """To settle is not to begin: the record says during the pause what is known."""
    service = Abandoned()
    service.dies(HOLD)
    pause(service)

    assert service.reconciles().expired == 1
    assert service.record.status is Status.FAILED_RETRYABLE
