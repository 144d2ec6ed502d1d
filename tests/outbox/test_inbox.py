"""Putting a message off: for how long, and what happens where the queue does not do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from infra.service import WORKER_FUNCTION
from infra.service_resources import REQUESTED
from oncekey.errors import ConfigurationError, StoreError, StoreUnavailable
from oncekey.outbox import Worker
from oncekey.outbox.inbox import delivered, own_queue, postpone
from oncekey.settings import Settings
from oncekey.store.sqs import SqsQueue
from oncekey.testing import MemoryStore, use_store
from tests.support.queue_events import delivery, message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_sqs import SQSClient

TWELVE_HOURS_S = 43_200
# The longest time of a function with an event source, on Managed Instances.
NINETY_MINUTES_S = 5_400


class Line:
    """A queue with one message that was received, and what is asked of it."""

    def __init__(self) -> None:
        self.client: SQSClient = boto3.client("sqs")
        self.url = self.client.create_queue(QueueName="work")["QueueUrl"]
        self.client.send_message(QueueUrl=self.url, MessageBody="{}")
        answer: Any = self.client.receive_message(QueueUrl=self.url, VisibilityTimeout=600)
        (received,) = answer["Messages"]
        self.handle: str = received["ReceiptHandle"]
        self.asked: list[dict[str, Any]] = []
        events = self.client.meta.events
        events.register(
            "provide-client-params.sqs.ChangeMessageVisibility",
            lambda params, **_: self.asked.append(dict(params)),
        )
        self.queue = SqsQueue(self.url, client=self.client)

    def visible(self) -> int:
        """How many messages can be received."""
        return len(self.client.receive_message(QueueUrl=self.url).get("Messages", []))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """A queue of its own for each test."""
    monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
    with mock_aws():
        yield Line()


def test_a_message_comes_again_when_it_is_due(line: Line) -> None:
    """A delay of nothing makes it visible at once; one of a minute does not."""
    assert postpone(line.handle, after_s=60, queue=line.queue) is True
    assert line.visible() == 0
    assert postpone(line.handle, after_s=0, queue=line.queue) is True
    assert line.visible() == 1


@pytest.mark.parametrize(
    ("after_s", "receives", "delay_s"),
    [
        (5, 1, 5),
        (5, 2, 10),
        (5, 5, 80),
        (0, 9, 0),
        (-3, 1, 0),
        (5, 0, 5),
        (60, 1000, TWELVE_HOURS_S - NINETY_MINUTES_S),
        (10**9, 1, TWELVE_HOURS_S - NINETY_MINUTES_S),
    ],
)
def test_the_delay_doubles_and_stays_within_what_the_queue_takes(
    line: Line, after_s: int, receives: int, delay_s: int
) -> None:
    """With each delivery a message waits twice as long, and never for a time that SQS refuses.

    SQS counts its twelve hours from the receipt, which a worker is up to ninety minutes behind.
    """
    assert postpone(line.handle, after_s=after_s, receives=receives, queue=line.queue)

    assert [each["VisibilityTimeout"] for each in line.asked] == [delay_s]


def test_the_receives_of_the_reference_queue_outlast_a_lease(line: Line) -> None:
    """A message behind a dead attempt is no dead letter before that one's lease is over.

    That is the worker's time and the margin; a running attempt asks for five seconds at the most.
    """
    lease_s = WORKER_FUNCTION.timeout_s + Settings().lease_margin_ms / 1000

    for receives in range(1, REQUESTED.max_receives):
        postpone(line.handle, after_s=5, receives=receives, queue=line.queue)

    assert sum(each["VisibilityTimeout"] for each in line.asked) >= lease_s


def test_the_queue_is_that_of_the_environment(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONCEKEY_QUEUE_URL names the queue where none is given."""
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", line.url)

    assert postpone(line.handle, after_s=0) is True

    assert line.visible() == 1


@pytest.mark.parametrize("queue", ["none", "another", "gone"])
def test_a_failure_to_postpone_is_logged_and_never_raised(
    line: Line,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A batch does not fail because one of its messages could not be put off.

    Red when what goes wrong there reaches the caller.
    """
    if queue != "none":
        url = {"another": "work", "gone": "nowhere"}[queue]
        monkeypatch.setenv("ONCEKEY_QUEUE_URL", line.url.replace("work", url))
    handle = line.handle if queue == "none" else "nonsense"

    assert postpone(handle, after_s=5) is False

    (entry,) = [record for record in caplog.records if record.name == "oncekey"]
    assert entry.getMessage().startswith("oncekey message-not-postponed")
    assert handle not in entry.getMessage()


def test_an_error_that_names_no_time_leaves_the_message_to_the_visibility_timeout(
    line: Line,
) -> None:
    """A table that is set up wrongly is no matter of time, so its error states none.

    Red when that raises in a worker, and fails its whole batch.
    """
    error = StoreUnavailable(operation="work").in_vain()

    assert postpone(line.handle, after_s=error.retry_after_s, queue=line.queue) is False

    assert line.asked == []


def test_a_test_without_a_queue_hears_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """A worker's test that has replaced the store needs no queue: nothing delivers again, and a
    failed message has no warnings about a queue beside its own.
    """

    def work(_record: object, _context: object) -> None:
        raise ValueError

    with use_store(MemoryStore()):
        Worker(work)(delivery(message()), None)
        assert postpone("handle", after_s=1) is False

    assert "message-failed" in caplog.text
    assert "message-not-postponed" not in caplog.text


def test_a_workers_own_client_asks_the_queue_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that does not answer must not use up the time of the messages."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", "https://sqs.example/a-queue-of-its-own")

    config: Any = own_queue()._connected().meta.config

    assert config.retries == {"total_max_attempts": 1, "mode": "standard"}
    assert config.connect_timeout + config.read_timeout == pytest.approx(1)


def test_a_test_that_names_a_queue_has_its_messages_put_off(line: Line) -> None:
    """A store that was replaced does not replace the queue that is given."""
    with use_store(MemoryStore()):
        assert postpone(line.handle, after_s=0, queue=line.queue) is True

    assert line.visible() == 1


def test_without_protection_no_queue_is_called(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED a unit test needs no queue, and none is told anything."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")

    assert postpone(line.handle, after_s=0, queue=line.queue) is False
    assert line.asked == []


@pytest.mark.fault("K4.8")
def test_a_whole_batch_is_hidden_in_calls_of_ten(line: Line) -> None:
    """Each message for its own time; one handle that the queue no longer knows leaves the others
    hidden, and is told.

    Red when a batch of more than ten is one call, or a refused entry is passed over.
    """
    client = line.client
    for number in range(12):
        client.send_message(QueueUrl=line.url, MessageBody=str(number))
    handles: list[str] = []
    while len(handles) < 12:
        answer: Any = client.receive_message(QueueUrl=line.url, MaxNumberOfMessages=10)
        handles += [each["ReceiptHandle"] for each in answer["Messages"]]

    line.queue.hide_all(
        [(handle, 0 if number < 3 else 60) for number, handle in enumerate(handles)]
    )
    answer = client.receive_message(QueueUrl=line.url, MaxNumberOfMessages=10)
    assert len(answer["Messages"]) == 3

    with pytest.raises(StoreError):
        line.queue.hide_all([("nonsense", 0)])
    assert line.queue.visibility_timeout_s() == 30


def test_a_name_in_place_of_a_queue_or_bucket_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A message is read with no text as its bucket, not even if it needs none; and the text of a
    URL postpones nothing, which is logged and never raised.
    """
    name: Any = "https://queue"
    with pytest.raises(ConfigurationError, match=r"bucket= is a str: pass ResponseBucket\(name\)"):
        delivered(message(), bucket=name)

    assert postpone("handle", after_s=5, queue=name) is False
    assert "queue= is a str: pass SqsQueue(url)" in caplog.text
