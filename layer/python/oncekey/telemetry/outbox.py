"""The log lines of the relay, the inbox and the worker, one function for each event.

They never contain a payload.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncekey.telemetry import watching

if TYPE_CHECKING:
    from oncekey.errors import StoreError
    from oncekey.record.set_aside import SetAside

_logger = logging.getLogger("oncekey")


def message_set_aside(message_id: str, reason: str) -> None:
    """A message of the outbox will not be sent again.

    To do: [remove the cause and requeue
    it](../guides/unknown-outcomes.md#messages-that-were-set-aside).
    """
    watching.count("MessagesSetAside")
    _logger.error(
        "oncekey message-set-aside: %s: %s",
        message_id or "(no id)",
        reason,
        extra={"oncekey_event": "message-set-aside", "message_id": message_id},
    )


def message_rejected(message_id: str, reason: str, *, is_final: bool) -> None:
    """The queue refused a message: for good (ERROR), or for now (WARNING).

    Then: it is set aside, or sent again.
    """
    _logger.log(
        logging.ERROR if is_final else logging.WARNING,
        "oncekey message-rejected: %s: %s",
        message_id,
        reason,
        extra={"oncekey_event": "message-rejected", "message_id": message_id},
    )


def message_waits_for_a_person(message: SetAside) -> None:
    """A message is still set aside; logged once, and then each week.

    To do: [remove the cause and requeue
    it](../guides/unknown-outcomes.md#messages-that-were-set-aside).
    """
    _logger.error(
        "oncekey message-waits-for-a-person: %s: %s",
        message.id,
        message.reason,
        extra={
            "oncekey_event": "message-waits-for-a-person",
            "message_id": message.id,
            "operation": message.operation,
            "operation_id": message.operation_id,
            "reason": message.reason,
        },
    )


def person_not_told(messages: int, error: StoreError) -> None:
    """The escalation queue, or the outbox, did not answer.

    Then: the next sweep escalates again.
    """
    _logger.error(
        "oncekey person-not-told: of %s messages: %s",
        messages,
        error.reason,
        extra={"oncekey_event": "person-not-told", "reason": error.reason},
    )


def relay_failed(messages: int, error: StoreError) -> None:
    """The queue or the outbox did not answer.

    Then: the messages are sent again.
    """
    _logger.error(
        "oncekey relay-failed: %s messages: %s",
        messages,
        error.reason,
        extra={"oncekey_event": "relay-failed", "reason": error.reason},
    )


def message_not_postponed(error: Exception) -> None:
    """A message comes again only when its visibility timeout is over.

    To do: grant `sqs:ChangeMessageVisibility` and `sqs:GetQueueAttributes`, and set
    `ONCEKEY_QUEUE_URL`.
    """
    _logger.warning(
        "oncekey message-not-postponed: %s",
        error,
        extra={"oncekey_event": "message-not-postponed"},
    )


def topic_unknown(message_id: str, topic: str, error: Exception) -> None:
    """A worker has no handler for a message, which becomes a dead letter.

    To do: [add its topic](../guides/queued-work.md#several-topics), then move the dead letters
    back.
    """
    _logger.error(
        "oncekey topic-unknown: %s: %s",
        message_id,
        error,
        extra={"oncekey_event": "topic-unknown", "message_id": message_id, "topic": topic},
    )


def message_failed(sqs_message_id: str, receives: int, error: BaseException) -> None:
    """A worker's message raised an error; the line has its type.

    Only the error's type is logged, because the text of an error may repeat the message.

    Then: the queue delivers it again; after too many receives it is a dead letter. After
    `WorkNotRun`, correct its function, which returned a coroutine or a generator.
    """
    watching.count("MessagesFailed")
    _logger.warning(
        "oncekey message-failed: %s: %s at receive %s",
        sqs_message_id,
        type(error).__name__,
        receives,
        extra={
            "oncekey_event": "message-failed",
            "sqs_message_id": sqs_message_id,
            "receives": receives,
            "reason": type(error).__name__,
        },
    )


def worker_waits(error: BaseException) -> None:
    """The store does not answer a worker.

    Then: it tries the same message again, within its time.
    """
    _logger.warning(
        "oncekey worker-waits: %s",
        type(error).__name__,
        extra={"oncekey_event": "worker-waits", "reason": type(error).__name__},
    )


def messages_given_back(messages: int) -> None:
    """A worker had no time to begin some of its messages.

    Then: the queue delivers them again soon.
    """
    _logger.warning(
        "oncekey messages-given-back: %s",
        messages,
        extra={"oncekey_event": "messages-given-back", "messages": messages},
    )
