"""Webhooks: signature first, the event's id as key, taken on with its message, repeats 2xx."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import StoreError
from oncekey.record.record import Status
from oncekey.testing.memory import MemoryStore
from oncekey.webhooks import Publish
from tests.support.hooks import OPERATION, TOPIC, Hook, event_body, status_of
from tests.support.protected import headers_of, is_replay, problem_of
from tests.support.webhooks import SENDERS, SHAPES, event_with

if TYPE_CHECKING:
    from typing import NoReturn

    from oncekey.record.commit import Commit
    from oncekey.webhooks import Delivery

DAY_MS = 24 * 3_600_000
EVERY_SENDER = pytest.mark.parametrize("sender", SENDERS)


class Untouchable:
    """A store that nobody may ask for anything."""

    call_timeout_ms = 0
    has_outbox = has_bucket = True

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"the store was asked to {name}")

    def write(self, transition: object) -> NoReturn:
        """Nobody may."""
        raise AssertionError(f"the store was asked to write {transition}")


class DownStore(MemoryStore):
    """A store that does not answer the next `down` commits; `applies` says if it applies them."""

    def __init__(self, *, down: int, applies: bool = False) -> None:
        super().__init__()
        self.down = down
        self._applies = applies

    def commit(self, commit: Commit) -> Any:
        """As the memory store's, or no answer."""
        if not self.down:
            return super().commit(commit)
        self.down -= 1
        if self._applies:
            super().commit(commit)
        raise StoreError("no answer", transient=True)


@pytest.mark.requirement("A10")
@EVERY_SENDER
def test_nothing_is_asked_of_the_store_before_the_signature_holds(sender: str) -> None:
    """What is signed with another secret, or not at all, is a 400 before any store work.

    Red when the record is read or written before the signature is judged.
    """
    hook = Hook(sender, store=Untouchable())

    assert problem_of(hook.send(secret=hook.sender.other_secret)) == (
        400,
        "signature-invalid",
        False,
    )
    assert hook.seen == []


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("shape", SHAPES)
@EVERY_SENDER
def test_an_event_is_marked_with_its_message_and_a_repeat_publishes_nothing(
    sender: str, shape: str
) -> None:
    """The first delivery leaves a completed record under the event's id and one message, in one
    commit; each later one is a 200 that says so, and leaves nothing.

    Red when record and message are two writes, or a repeat publishes again.
    """
    hook = Hook(sender)
    commits: list[Commit] = []
    whole = hook.store.commit

    def watched(commit: Commit) -> Any:
        commits.append(commit)
        return whole(commit)

    hook.store.commit = watched
    first = hook.send("evt_1", shape=shape)
    again = [hook.send("evt_1", shape=shape) for _ in range(3)]

    assert status_of(first) == "accepted"
    assert not is_replay(first)
    assert [status_of(answer) for answer in again] == ["repeat"] * 3
    assert all(map(is_replay, again))
    (record,) = hook.store.records.values()
    (message,) = hook.store.messages
    assert (record.status, record.key, record.operation) == (Status.COMPLETED, "evt_1", OPERATION)
    assert (message.topic, message.operation_id) == (TOPIC, record.operation_id)
    assert json.loads(message.payload)["id"] == "evt_1"
    assert commits[0].messages == (message,)


@pytest.mark.requirement("A10")
@EVERY_SENDER
def test_a_repeat_is_2xx_whatever_it_says(sender: str) -> None:
    """Under the id of an event that was taken on, another body is a repeat: no 409, no 422, and a
    400 only if it is not signed; also one that the function cannot read.

    Red when bodies are compared, or a repeat that is not understood is a 400.
    """
    hook = Hook(sender, event_id=lambda _delivery: "evt_1")
    hook.send(body=event_body("evt_1"))

    assert status_of(hook.send(body=event_body("evt_1", type="something.else"))) == "repeat"
    if sender != "stripe":
        assert status_of(hook.send(body=b"\xff no JSON")) == "repeat"
    hook.then = lambda delivery: delivery.json()["absent"]
    assert status_of(hook.send(body=event_body("evt_1", type="a.third"))) == "repeat"
    assert len(hook.store.messages) == 1


def test_an_event_is_remembered_for_31_days_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An id is remembered for longer than any sender sends it again; then it is a new event."""
    monkeypatch.setenv("ONCEKEY_RETENTION_S", "60")
    hook = Hook()
    hook.send()

    hook.clock.advance(31 * DAY_MS - 1)
    assert status_of(hook.send()) == "repeat"
    hook.clock.advance(1001)
    assert status_of(hook.send()) == "accepted"
    assert len({message.id for message in hook.store.messages}) == 2


def test_an_event_that_is_nothing_to_us_leaves_nothing() -> None:
    """None from the function is a 200, and nothing is asked of the store: a later release may want
    the event, and get it.
    """
    hook = Hook(store=Untouchable())
    hook.then = lambda _delivery: None

    assert status_of(hook.send()) == "ignored"


@EVERY_SENDER
def test_the_function_sees_what_was_signed(sender: str) -> None:
    """It gets the event's id, the raw body, and the request with its headers."""
    hook = Hook(sender)
    hook.send("evt_1")

    (delivery,) = hook.seen
    assert (delivery.id, delivery.body) == ("evt_1", event_body("evt_1"))
    assert delivery.json()["object"] == "event"
    assert delivery.request.header_lines(hook.sender.signed_by.lower())


@pytest.mark.requirement("A10")
def test_a_store_that_is_down_makes_the_sender_send_again() -> None:
    """While the store does not answer, the event is a 503 with Retry-After, within four seconds;
    the delivery after that takes it on.

    Red when a delivery that is not on record is a 2xx.
    """
    hook = Hook(store=DownStore(down=10**6))
    begun_ms = hook.clock.now_ms()

    refused = hook.send()
    took_ms = hook.clock.now_ms() - begun_ms
    hook.store.down = 0
    hook.clock.advance(60_000)

    assert problem_of(refused) == (503, "store-unavailable", True)
    assert headers_of(refused)["retry-after"] == "1"
    assert took_ms <= 4_000
    assert status_of(hook.send()) == "accepted"


def test_many_refusals_open_the_breaker() -> None:
    """After three deliveries that the store failed the next is refused without asking it."""
    hook = Hook(store=DownStore(down=10**6))
    for _ in range(3):
        hook.send()
    left = hook.store.down

    assert problem_of(hook.send()) == (503, "store-unavailable", True)
    assert hook.store.down == left


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_is_recognised(lost: int) -> None:
    """A transaction that was applied and whose answer is lost is ours: a 200 that is no repeat, and
    one message.

    Red when the record met under our own owner is taken for somebody else's.
    """
    hook = Hook(store=DownStore(down=lost, applies=True))

    assert status_of(hook.send()) == "accepted"
    assert len(hook.store.messages) == 1
    assert status_of(hook.send()) == "repeat"


def test_a_transaction_that_was_applied_and_given_up_is_a_repeat_next_time() -> None:
    """Where no answer arrives in time the sender gets a 503, and its next delivery a 200."""
    hook = Hook(store=DownStore(down=3, applies=True))

    assert hook.send()["statusCode"] == 503
    assert status_of(hook.send()) == "repeat"
    assert len(hook.store.messages) == 1


def test_two_deliveries_at_once_publish_once() -> None:
    """A delivery that is overtaken between its decision and its write finds the other's record."""
    hook = Hook()
    hook.then = lambda delivery: overtaken(hook, delivery)

    def overtaken(hook: Hook, delivery: Delivery) -> Publish:
        if len(hook.seen) == 1:
            assert status_of(hook.send()) == "accepted"
        return Publish(TOPIC, delivery.json())

    assert status_of(hook.send()) == "repeat"
    assert len(hook.store.messages) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "no text"),
        (b"null", "no object"),
        (b'{"id": 1}', "an id that is no text"),
        (b'{"id": ""}', "an empty id"),
        (b'{"id": "\\ud800"}', "an id that no store takes"),
        (b'{"id": "a\\u0000b"}', "a NUL"),
        (b'{"id": "' + b"x" * 256 + b'"}', "too long"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": ' + b"9" * 5_000 + b"}", "more digits than Python reads"),
    ],
)
def test_a_signed_body_that_is_no_event_is_a_400(body: bytes, why: str) -> None:
    """Whatever Stripe might sign that has no id is `event-invalid`, before any store work."""
    hook = Hook(store=Untouchable())

    assert problem_of(hook.send(body=body)) == (400, "event-invalid", False), why


@pytest.mark.parametrize("value", ["", "a,b", "é", "x" * 256, "a b", None])
def test_an_id_in_a_header_is_one_word(value: str | None) -> None:
    """A missing, repeated or impossible delivery id is `event-invalid`."""
    hook = Hook("github", store=Untouchable())
    body = event_body("evt_1")
    headers = hook.sender.headers(hook.sender.secret, body, value or "", 0)
    if value is None:
        del headers["X-GitHub-Delivery"]

    assert problem_of(hook.post(event_with(headers, body))) == (400, "event-invalid", False)


def _asserts_a_version(delivery: Delivery) -> Publish:
    assert delivery.json().get("api_version") == "of another release"
    return Publish(TOPIC, delivery.json())


@pytest.mark.parametrize(
    "function",
    [
        lambda delivery: delivery.json()["data"]["object"]["id"],
        lambda delivery: Publish(TOPIC, {"at": float("nan")}),
        lambda delivery: Publish(TOPIC, {"text": "\ud800"}),
        lambda delivery: Publish(TOPIC, delivery.body),
        lambda delivery: int("nine"),
        lambda delivery: next(each for each in delivery.json() if each == "items"),
        lambda delivery: Publish(TOPIC, str(Decimal("nine euros"))),
        lambda delivery: Publish(TOPIC, str(Decimal("9e999999") * 100)),
        _asserts_a_version,
        lambda delivery: Publish(TOPIC, datetime.fromtimestamp(10**20, UTC).isoformat()),
        lambda delivery: Publish(TOPIC, datetime.fromtimestamp(10**18, UTC).isoformat()),
    ],
)
def test_an_event_that_the_function_cannot_read_is_a_400(function: Any) -> None:
    """A form that its author did not expect is `event-invalid`: the sender keeps it, and a release
    that can read it takes it on.
    """
    hook = Hook()
    good, hook.then = hook.then, function

    assert problem_of(hook.send()) == (400, "event-invalid", False)
    assert hook.store.records == {}
    hook.then = good
    assert status_of(hook.send()) == "accepted"


def test_other_failures_of_the_function_are_raised() -> None:
    """What is no question of the event's form is the author's to see, and nothing is recorded."""
    hook = Hook()

    def fails(_delivery: object) -> NoReturn:
        raise ZeroDivisionError

    hook.then = fails
    with pytest.raises(ZeroDivisionError):
        hook.send()
    hook.then = lambda _delivery: Path("/no/such/file").read_text("utf-8")
    with pytest.raises(FileNotFoundError):
        hook.send()
    hook.then = lambda _delivery: {"topic": TOPIC}
    with pytest.raises(TypeError, match=r"returns Publish\(topic, payload\), or None"):
        hook.send()
    assert hook.store.records == {}


def test_the_tenant_is_told_by_the_verified_event() -> None:
    """A callable of the delivery says whose event it is; one id of two tenants is two events, and
    an event that names nobody is a 403.
    """
    hook = Hook(tenant=lambda delivery: delivery.json()["account"])

    for account in ("acct_1", "acct_2"):
        assert status_of(hook.send(body=event_body("evt_1", account=account))) == "accepted"
    for nobody in (None, "", 7):
        refused = hook.send(body=event_body("evt_1", account=nobody))
        assert problem_of(refused) == (403, "tenant-missing", False)
    assert problem_of(hook.send()) == (403, "tenant-missing", False)
    assert [message.tenant for message in hook.store.messages] == ["acct_1", "acct_2"]


def test_an_id_from_the_body_holds_where_the_headers_is_not_signed() -> None:
    """With `event_id=` a captured delivery under another header id is a repeat."""
    hook = Hook("github", event_id=lambda delivery: delivery.json()["id"])

    assert status_of(hook.send("guid-1", body=event_body("evt_1"))) == "accepted"
    assert status_of(hook.send("guid-2", body=event_body("evt_1"))) == "repeat"
    assert problem_of(hook.send("guid-3", body=b"{}")) == (400, "event-invalid", False)


def test_no_time_left_is_a_503() -> None:
    """An invocation that is over before it begins takes nothing on."""
    hook = Hook(store=Untouchable(), timeout_ms=0)

    assert problem_of(hook.send()) == (503, "not-executed", True)
