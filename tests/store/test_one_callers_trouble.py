"""What one caller's request meets in DynamoDB does not become everybody's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from oncekey import DynamoDBStore
from oncekey.engine.store_state import state_of
from oncekey.errors import StoreError
from oncekey.store.aws_errors import store_error
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import TABLE
from tests.support.events import load, with_key
from tests.support.protected import Protected, headers_of, problem_of
from tests.support.recorded import OUTBOX, World, transfer

if TYPE_CHECKING:
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

POST = load("apigw_http_v2_post")
THROTTLES = [
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "LimitExceededException",
]


class FailingStore(MemoryStore):
    """A store whose writes to some keys fail; it counts them."""

    def __init__(self, failure: Exception, *, of_key: str, times: int = 10**6) -> None:
        super().__init__()
        self.calls = 0
        self._failure = failure
        self._of_key = of_key
        self._left = times

    def write(self, transition: Transition) -> Written | Refused:
        """Or the failure."""
        record = getattr(transition, "record", None)
        if record is not None and record.key == self._of_key and self._left:
            self._left -= 1
            self.calls += 1
            known = isinstance(self._failure, StoreError)
            raise self._failure if known else store_error(self._failure)
        return super().write(transition)


def a_hot_key(code: str, times: int = 10**6) -> FailingStore:
    """A store that throttles one key."""
    throttled = ClientError({"Error": {"Code": code, "Message": ""}}, "PutItem")
    return FailingStore(throttled, of_key="a-key-that-is-hot", times=times)


@pytest.mark.fault("K4.1")
@pytest.mark.parametrize("code", THROTTLES)
def test_throttling_of_one_key_opens_no_breaker(code: str) -> None:
    """A key that DynamoDB throttles is refused again and again, retryable; every other key of the
    sandbox is served as ever.

    Red when throttling counts as an outage.
    """
    service = Protected(store=a_hot_key(code))
    hot = with_key(POST, "a-key-that-is-hot")

    for number in range(6):
        refused = service.send(hot)
        assert problem_of(refused) == (503, "store-unavailable", True)
        assert headers_of(refused)["retry-after"] == "1"
        assert service.send(with_key(POST, f"key-of-the-others-{number}"))["statusCode"] == 201
    for _ in range(6):
        service.send(hot)

    assert state_of(service.store).breaker.refuses_for_ms(service.clock.now_ms()) == 0
    assert service.send(with_key(POST, "key-of-the-last-one"))["statusCode"] == 201


@pytest.mark.fault("K4.1")
@pytest.mark.parametrize("times", [1, 5, 7])
def test_throttling_is_waited_out_within_the_time(times: int) -> None:
    """A burst at one key passes: the reserve is tried for some three seconds, where an outage is
    given up after its third failure.

    Red when a throttled try counts like one that the store failed.
    """
    service = Protected(store=a_hot_key("ThrottlingException", times))

    assert service.send(with_key(POST, "a-key-that-is-hot"))["statusCode"] == 201
    assert service.store.calls == times


MISTAKES = [TypeError("bytes found"), ValueError("no"), KeyError("#n"), AttributeError("items")]


@pytest.mark.fault("K4.2")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: type(mistake).__name__)
def test_a_programming_error_is_not_resent_and_opens_no_breaker(
    mistake: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A call that cannot be made is made once, logged by its kind and where it was raised, and
    every other request is served.

    Red when what the client's code raises counts as an outage, or is sent again to the deadline.
    """
    caplog.set_level(logging.ERROR, "oncekey")
    store = FailingStore(mistake, of_key="a-key-that-is-hot")
    service = Protected(store=store)

    for number in range(1, 5):
        answer = service.send(with_key(POST, "a-key-that-is-hot"))
        assert problem_of(answer)[:2] == (503, "store-unavailable")
        assert store.calls == number

    assert service.send(with_key(POST, "key-of-another-one"))["statusCode"] == 201
    assert {vars(entry)["kind"] for entry in caplog.records} == {"mistake"}
    assert type(mistake).__name__ in caplog.records[0].getMessage()
    assert "bytes found" not in caplog.text


class BrokenClient:
    """A client of DynamoDB with a mistake in it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.meta = client.meta
        self.calls = 0

    def transact_write_items(self, **_: object) -> None:
        """Raises, as botocore does for a parameter of a wrong type."""
        self.calls += 1
        raise TypeError("sequence item 0: expected str instance, bytes found")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.fault("K4.2")
def test_a_programming_error_in_a_transaction_is_made_once(world: World) -> None:
    """A commit whose call cannot be made is not sent again to the deadline; its attempt is put
    back, nothing of it is applied, and the store stays open to others.

    Red when a transaction's failure without an answer is always sent again.
    """
    client: Any = BrokenClient(world.client)
    store = DynamoDBStore(TABLE, client=client, outbox=OUTBOX, call_timeout_ms=1)
    service = world.service(store=store)

    answers = [service.sends(transfer()) for _ in range(3)]

    assert {problem_of(answer)[:2] for answer in answers} == {(503, "store-unavailable")}
    assert client.calls == 3
    assert world.is_empty_of_effects()
    assert state_of(store).breaker.refuses_for_ms(service.clock.now_ms()) == 0


def test_a_bucket_that_is_down_opens_no_breaker_of_the_table() -> None:
    """Requests that need the bucket are refused while it is down; all others are served.

    Red when a failure of the bucket counts as an outage of the table.
    """
    failure = StoreError("EndpointConnectionError", transient=True)
    failure.is_of_bucket = True
    service = Protected(store=FailingStore(failure, of_key="a-key-that-is-hot"))

    for _ in range(4):
        assert problem_of(service.send(with_key(POST, "a-key-that-is-hot")))[0] == 503

    assert service.send(with_key(POST, "key-of-another-one"))["statusCode"] == 201
