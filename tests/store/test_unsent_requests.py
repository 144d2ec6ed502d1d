"""Whether a request that failed was certainly not sent, by what the client says of its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from oncekey import DynamoDBStore, StoreError
from oncekey.reconciler.escalation import NotSent, TellPerson
from oncekey.record.commit import Commit
from oncekey.store.dynamodb.transaction import cancellation
from oncekey.store.sqs import SqsQueue
from tests.store.test_aws_errors import ADDRESS, NO_ANSWER, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

UNSENT = (ConnectTimeoutError, EndpointConnectionError)
LOST = [ReadTimeoutError, ConnectionClosedError]
COMMIT = Commit(transition=None, token="")


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment of a client, and no pauses between its attempts."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _s: None)


def attempts(client: Any, *befall: Any) -> None:
    """Each attempt meets one of these: an exception, or an answer of this status."""
    left = list(befall)

    def meet(**_: object) -> Any:
        met = left.pop(0) if len(left) > 1 else left[0]
        if not isinstance(met, int):
            raise met(endpoint_url=ADDRESS)
        return AWSResponse(ADDRESS, met, HTTPHeaders(), Body())

    client.meta.events.register_first("before-send", meet)


class Body:
    """The body of an error's answer."""

    def stream(self, *_arguments: object, **_options: object) -> Any:
        """Its bytes."""
        yield b"{}"


def failure_of(call: Callable[[], object]) -> StoreError:
    """What a call raises."""
    with pytest.raises(StoreError) as raised:
        call()
    return raised.value


def dynamodb(attempts: int | None) -> Any:
    """A client of the user's that makes so many attempts; None leaves it to botocore."""
    retries: Any = {"mode": "standard"}
    if attempts:
        retries["total_max_attempts"] = attempts
    config = Config(connect_timeout=1, read_timeout=1, retries=retries)
    return boto3.client("dynamodb", config=config)


@pytest.mark.parametrize("error", NO_ANSWER, ids=lambda error: type(error).__name__)
def test_a_request_without_a_connection_is_certainly_not_applied(error: Exception) -> None:
    """Without a connection nothing was sent; after it, nobody knows what arrived.

    Red when a request that was never sent counts as a doubt, or one that was sent as none.
    """
    client = dynamodb(1)
    client.meta.events.register_first("before-call", raises(error))

    failure = failure_of(lambda: DynamoDBStore("t", client=client).read("v1#"))

    assert failure.is_harmless is isinstance(error, UNSENT)


def raises(error: Exception) -> Callable[..., None]:
    """A handler of an event that raises this."""

    def handler(**_: object) -> None:
        raise error

    return handler


@pytest.mark.parametrize("most", [2, None])
@pytest.mark.parametrize("first", LOST, ids=lambda error: error.__name__)
def test_a_client_that_retries_by_itself_may_have_sent_the_request(
    first: type[Exception], most: int | None
) -> None:
    """The first attempt was received and its answer lost; the others found no connection.

    Red when the last attempt decides for all, so that a write that may be applied counts as unsent.
    """
    client = dynamodb(most)
    attempts(client, first, EndpointConnectionError)

    failure = failure_of(lambda: DynamoDBStore("t", client=client).read("v1#"))

    assert (failure.reason, failure.is_harmless) == ("EndpointConnectionError", False)


def retried(code: str, **facts: Any) -> Any:
    """An error that answers the second attempt of a client."""
    error = refusal(code)
    error.response["ResponseMetadata"]["RetryAttempts"] = 1
    error.response.update(facts)  # type: ignore[typeddict-item]  # as the service answers it
    return error


@pytest.mark.parametrize(
    "error",
    [
        retried("ThrottlingException"),
        retried("TransactionCanceledException", CancellationReasons=[{"Code": "ThrottlingError"}]),
    ],
    ids=["throttled", "cancelled"],
)
def test_contention_at_a_later_attempt_says_nothing_of_the_first(error: Any) -> None:
    """DynamoDB refused the second attempt of a client; the first may have been carried out.

    Red when the refusal of the last attempt counts for all.
    """
    failure = failure_of(lambda: cancellation(error, COMMIT))
    assert (failure.contention, failure.is_harmless) == ("throttled", False)

    error.response["ResponseMetadata"]["RetryAttempts"] = 0
    assert failure_of(lambda: cancellation(error, COMMIT)).is_harmless


def own_queue() -> tuple[SqsQueue, Any]:
    """A queue and its own client, which makes two attempts."""
    queue = SqsQueue("https://sqs.example/escalations")
    return queue, queue._connected()


@pytest.mark.parametrize("first", [*LOST, 500], ids=["times out", "breaks off", "fails"])
def test_a_queues_second_attempt_does_not_decide_for_the_first(first: Any) -> None:
    """The first attempt of a queue's client may have been received; the second found no connection:
    the message may be in the queue.

    Red when a person is told twice a day of what the queue has.
    """
    queue, client = own_queue()
    attempts(client, first, EndpointConnectionError)

    failure = failure_of(lambda: TellPerson("a", "{}", queue).carry_out())

    assert not isinstance(failure, NotSent)
    assert not failure.is_harmless


def test_a_queue_that_no_attempt_reaches_has_nothing() -> None:
    """Neither attempt found a connection: the message is certainly not in the queue.

    Red when a person is told a day later, because nobody could be reached for a minute.
    """
    queue, client = own_queue()
    attempts(client, ConnectTimeoutError, EndpointConnectionError)

    assert isinstance(failure_of(lambda: TellPerson("a", "{}", queue).carry_out()), NotSent)


def test_a_final_refusal_of_a_second_attempt_does_not_decide_for_the_first() -> None:
    """The queue refuses the second attempt for good, and may have the message of the first.

    Red when that counts as not sent.
    """
    queue, client = own_queue()
    attempts(client, LOST[0], 403)

    assert not isinstance(failure_of(lambda: TellPerson("a", "{}", queue).carry_out()), NotSent)
    attempts(client, 403)
    assert isinstance(failure_of(lambda: TellPerson("a", "{}", queue).carry_out()), NotSent)
