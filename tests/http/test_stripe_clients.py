"""Clients of Stripe's official SDK against an operation under the STRIPE preset."""

from __future__ import annotations

import contextlib
import threading
from multiprocessing.connection import Listener
from typing import TYPE_CHECKING, cast

import pytest
import stripe

from tests.support.dev_service import running
from tests.support.provider import sdk
from tests.support.unreliable_way import Passed, Way, way_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.dev_process import DevProcess


@pytest.fixture(scope="module")
def dev() -> Iterator[DevProcess]:
    """The service, as a real process."""
    with running("tests.support.stripe_service:SERVICE") as process:
        yield process


@pytest.fixture
def way(dev: DevProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """The way to it; the SDK's pauses between its tries take no time."""
    monkeypatch.setattr(stripe.RequestsClient, "_sleep_time_seconds", lambda *_, **__: 0)
    with way_to(dev.url) as found:
        yield found


@contextlib.contextmanager
def client(way: Way, dev: DevProcess, *, retries: int = 2) -> Iterator[stripe.StripeClient]:
    """The SDK, whose API key is an access token of the service."""
    with sdk(way.url, retries=retries, api_key=dev.token("acme")) as found:
        yield found


def create(found: stripe.StripeClient, key: str | None = None, **form: str) -> stripe.Customer:
    """A customer; without a key, under the one that the SDK makes up."""
    options: stripe.RequestOptions = {} if key is None else {"idempotency_key": key}
    params = cast("stripe.params.CustomerCreateParams", form)
    return found.v1.customers.create(params=params, options=options)


@pytest.mark.parametrize("lost", [1, 2])
def test_the_sdk_that_lost_the_first_answer_ends_with_it(
    way: Way, dev: DevProcess, lost: int
) -> None:
    """The connection closes after the handler has run: the SDK's own retries get the first answer.

    Red when a retry runs the handler again, or is refused.
    """
    way.drop = lost
    with client(way, dev) as found:
        customer = create(found, email="jane@example.com")

    assert [passed.status for passed in way.passed] == [200] * (lost + 1)
    assert {passed.body for passed in way.passed} == {way.passed[0].body}
    assert customer.id in way.passed[0].body.decode()
    assert way.passed[-1].headers["idempotent-replayed"] == "true"


def test_the_sdk_that_meets_its_own_running_request_ends_with_its_answer(
    way: Way, dev: DevProcess
) -> None:
    """A repeat of a running request is 409 `idempotency_key_in_use`, which the SDK tries again by
    itself until it has the answer of the first.

    Red when the 409 tells it to give up, or its retry runs a second time.
    """
    first: list[stripe.Customer] = []
    with Listener(("127.0.0.1", 0), authkey=b"test") as meeting, client(way, dev) as found:
        form = {"description": f"meet:{meeting.address[1]}"}
        key = "key-of-two-at-once"
        thread = threading.Thread(target=lambda: first.append(create(found, key, **form)))
        thread.start()
        with meeting.accept() as handler:
            assert handler.recv() == 1

            def let_go(passed: Passed) -> None:
                # The first refusal has been given: the first request may end now.
                if passed.status == 409 and thread.is_alive():
                    way.on_answer = lambda _passed: None
                    handler.send(None)
                    thread.join()

            way.on_answer = let_go
            with client(way, dev) as other:
                second = create(other, key, **form)
    (customer,) = first

    assert second.id == customer.id
    # In the order in which they came by: the refusal is held back until the first has its answer.
    assert [passed.status for passed in way.passed] == [409, 200, 200]
    refusal = next(passed for passed in way.passed if passed.status == 409)
    assert b"idempotency_key_in_use" in refusal.body
    assert refusal.headers["stripe-should-retry"] == "true"


@pytest.mark.requirement("E4")
def test_another_request_under_a_used_key_is_an_idempotency_error(
    way: Way, dev: DevProcess
) -> None:
    """The SDK raises `IdempotencyError` for a reused key, and does not try again.

    Red when the status or the type is not the one that the SDK branches on.
    """
    with client(way, dev) as found:
        create(found, "key-used-for-two", email="jane@example.com")
        with pytest.raises(stripe.IdempotencyError) as raised:
            create(found, "key-used-for-two", email="joe@example.com")

    assert raised.value.http_status == 400
    assert [passed.status for passed in way.passed] == [200, 400]


@pytest.mark.requirement("A8")
def test_a_failure_is_stored_and_the_sdk_does_not_hammer(way: Way, dev: DevProcess) -> None:
    """A handler that raised: `APIError` with a 500, without a retry; the same key gets the same
    error again.

    Red when the SDK is not told to leave it, or the failure is not stored.
    """
    with client(way, dev) as found:
        for _ in range(2):
            with pytest.raises(stripe.APIError) as raised:
                create(found, "key-of-a-failure", description="fail")
            assert raised.value.http_status == 500

    assert [passed.status for passed in way.passed] == [500, 500]
    assert way.passed[0].body == way.passed[1].body
    assert way.passed[1].headers["idempotent-replayed"] == "true"


def test_an_error_of_the_business_is_the_sdks_own_and_is_replayed(
    way: Way, dev: DevProcess
) -> None:
    """A declined card is a `CardError`, at first and on a replay."""
    with client(way, dev) as found:
        for _ in range(2):
            with pytest.raises(stripe.CardError) as raised:
                create(found, "key-of-a-declined-card", description="decline")
            assert raised.value.code == "card_declined"

    assert [passed.headers.get("idempotent-replayed") for passed in way.passed] == [None, "true"]


def test_what_did_not_happen_is_tried_again_by_the_sdk(way: Way, dev: DevProcess) -> None:
    """Proven not executed: 503 with `Stripe-Should-Retry: true`, so the SDK uses up its retries.

    Red when it is told to give up, or the key stays taken.
    """
    with client(way, dev) as found, pytest.raises(stripe.APIError) as raised:
        create(found, "key-of-nothing-at-all", description="nothing")

    assert raised.value.http_status == 503
    assert [passed.status for passed in way.passed] == [503] * 3


def test_a_key_that_is_too_short_is_an_invalid_request(way: Way, dev: DevProcess) -> None:
    """A malformed key is `InvalidRequestError`, with a code, and is not tried again."""
    with client(way, dev) as found, pytest.raises(stripe.InvalidRequestError) as raised:
        create(found, "short", email="jane@example.com")

    assert raised.value.code == "idempotency_key_invalid"
    assert len(way.passed) == 1


def test_the_headers_of_first_answer_and_replay_are_stripes(way: Way, dev: DevProcess) -> None:
    """`Request-Id` and `Original-Request` are equal on the first answer; a replay has an id of its
    own, names the first one, and says that it is a replay.

    Red when a replay passes for the first request, or the key is not echoed.
    """
    key = "key-of-headers-1"
    with client(way, dev) as found:
        first, replay = (create(found, key, email="jane@example.com") for _ in range(2))
    one, two = (passed.headers for passed in way.passed)

    assert first.last_response is not None
    assert replay.last_response is not None
    assert first.last_response.idempotency_key == replay.last_response.idempotency_key == key
    assert one["request-id"] == one["original-request"] == first.last_response.request_id
    assert two["original-request"] == one["request-id"] != two["request-id"]
    assert two["request-id"].startswith("req_")
    assert "idempotent-replayed" not in one
    assert two["idempotent-replayed"] == "true"
    assert one["stripe-should-retry"] == two["stripe-should-retry"] == "false"
