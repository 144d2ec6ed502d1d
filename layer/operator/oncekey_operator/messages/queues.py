"""A queue and its dead letters, as an operator sees them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.store.sqs import MOST_BATCH_BYTES
from oncekey_operator.exits import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# SQS's limit for one call.
_BATCH = 10
# With a wait, SQS asks all of its servers, so that no message is overlooked.
_WAIT_S = 1
# A message that is looked at comes back after this time if the command is killed.
_HIDDEN_S = 60
# One that a person is asked about, meanwhile.
_ASKED_ABOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message in a dead-letter queue. `id` and `topic` are empty if it is no message of ours."""

    message_id: str
    handle: str
    body: str = field(repr=False)
    sent_at_ms: int
    group: str | None
    attributes: dict[str, Any] = field(repr=False)
    id: str = ""
    topic: str = ""
    operation: str = ""
    operation_id: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """The dead-letter queue of the queue `url`, and the way back to it."""

    client: Any
    url: str
    source_url: str

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO queue, which shows no more of a group that somebody looks at.

        So all looks together see the first ten messages of a group at most.
        https://repost.aws/knowledge-center/sqs-fifo-messages-not-returned
        """
        return _is_fifo(self.url)

    def count(self) -> int:
        """How many messages wait in it, about."""
        return waiting_in(self.client, self.url)

    def receive(self, most: int) -> Iterator[list[DeadLetter]]:
        """Batches of messages, up to `most` together. Each is hidden for a minute."""
        left = most
        while left > 0:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(_BATCH, left),
                VisibilityTimeout=_HIDDEN_S,
                WaitTimeSeconds=_WAIT_S,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            found = [_dead_letter(each) for each in answer.get("Messages", [])]
            if not found:
                return
            left -= len(found)
            yield found

    def show_again(self, letters: list[DeadLetter]) -> None:
        """Hide these messages no longer."""
        self._hide(letters, 0)

    def _hide(self, letters: list[DeadLetter], seconds: int) -> None:
        for start in range(0, len(letters), _BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": each.handle, "VisibilityTimeout": seconds}
                for number, each in enumerate(letters[start : start + _BATCH])
            ]
            self.client.change_message_visibility_batch(QueueUrl=self.url, Entries=entries)

    def find(self, message_id: str, most: int) -> DeadLetter | None:
        """The dead letter with this SQS message id, or id of ours, among the first `most`.

        It is hidden for ten minutes, while a person is asked; the others are hidden no longer.
        """
        found: DeadLetter | None = None
        others: list[DeadLetter] = []
        for letters in self.receive(most):
            for each in letters:
                if found is None and message_id in {each.message_id, each.id}:
                    found = each
                else:
                    others.append(each)
            if found is not None:
                break
        self.show_again(others)
        if found is not None:
            self._hide([found], _ASKED_ABOUT_S)
        return found

    def discard(self, letter: DeadLetter) -> None:
        """Delete this message. SQS says nothing if somebody has moved or deleted it meanwhile."""
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=letter.handle)

    def move_back(self, letters: list[DeadLetter]) -> int:
        """Send these messages, at most ten, to their queue again, and then delete them here.

        Returns how many were moved: all of them, or those before the first call that moved not all.
        A message is deleted only after the queue has it. So a kill, or
        a lost answer, leaves it in both queues and never in none: a worker then gets it twice, and
        recognises it by the id in its body.
        """
        done = 0
        for together in _batches(letters):
            count = self._move_back(together)
            done += count
            if count < len(together):
                break
        return done

    def _move_back(self, letters: list[DeadLetter]) -> int:
        answer = self.client.send_message_batch(
            QueueUrl=self.source_url,
            Entries=[
                _entry(number, each, is_fifo=_is_fifo(self.source_url))
                for number, each in enumerate(letters)
            ],
        )
        sent = [letters[int(each["Id"])] for each in answer.get("Successful", [])]
        if not sent:
            return 0
        entries = [
            {"Id": str(number), "ReceiptHandle": each.handle} for number, each in enumerate(sent)
        ]
        self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
        return len(sent)


def _batches(letters: list[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """The messages in their order, no more together than SQS takes in one call.

    One of a group goes alone. SQS may refuse some of a batch, and the next of its group would then
    be sent before it.
    """
    batch: list[DeadLetter] = []
    size_bytes = 0
    for each in letters:
        added_bytes = len(each.body.encode()) + len(json.dumps(each.attributes, default=str))
        is_full = each.group is not None or size_bytes + added_bytes > MOST_BATCH_BYTES
        if batch and is_full:
            yield batch
            batch, size_bytes = [], 0
        batch.append(each)
        size_bytes += added_bytes
    if batch:
        yield batch


def waiting_in(client: Any, queue_url: str) -> int:
    """How many messages wait in a queue, about: SQS does not say it exactly."""
    name = "ApproximateNumberOfMessages"
    answer = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[name])
    return int(answer["Attributes"][name])


def dead_letters_of(client: Any, queue_url: str) -> DeadLetterQueue:
    """The dead-letter queue that `queue_url` names in its redrive policy.

    Raises:
        UsageError: it has none.
    """
    name = "RedrivePolicy"
    answer = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=[name])
    policy = json.loads(answer.get("Attributes", {}).get(name, "{}"))
    arn = str(policy.get("deadLetterTargetArn", ""))
    if not arn:
        raise UsageError(f"the queue {queue_url} has no dead-letter queue")
    *_, account, queue = arn.split(":")
    found = client.get_queue_url(QueueName=queue, QueueOwnerAWSAccountId=account)
    return DeadLetterQueue(client, found["QueueUrl"], queue_url)


def _dead_letter(message: dict[str, Any]) -> DeadLetter:
    system = message.get("Attributes", {})
    return DeadLetter(
        message_id=message["MessageId"],
        handle=message["ReceiptHandle"],
        body=message["Body"],
        sent_at_ms=int(system.get("SentTimestamp", 0)),
        group=system.get("MessageGroupId"),
        attributes=message.get("MessageAttributes", {}),
        **_envelope(message["Body"]),
    )


def _envelope(body: str) -> dict[str, str]:
    names = ("id", "topic", "operation", "operation_id")
    try:
        found = json.loads(body)
        return {name: str(found[name]) for name in names}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _is_fifo(url: str) -> bool:
    # SQS requires the suffix.
    return url.endswith(".fifo")


def _entry(number: int, letter: DeadLetter, *, is_fifo: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"Id": str(number), "MessageBody": letter.body}
    if letter.attributes:
        entry["MessageAttributes"] = letter.attributes
    if letter.group is not None:
        entry["MessageGroupId"] = letter.group
    if is_fifo:
        # A standard queue takes a group, too, and refuses this id. A FIFO queue would drop the id
        # of the first sending for five minutes, and so lose the message.
        entry["MessageDeduplicationId"] = f"redrive-{letter.message_id}"
    return entry
