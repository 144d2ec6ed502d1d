"""The queue: the only file that knows SQS.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.record.message_text import queue_name
from oncekey.store.aws_errors import store_error
from oncekey.store.dynamodb.client import making_a_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient

MOST_ENTRIES = 10
# The quota since 2025 is 1 MiB; this one holds for every queue and every engine.
MOST_BATCH_BYTES = 256 * 1024
# SQS hides a message for twelve hours from its receipt at the most, and refuses what would be
# longer. A Lambda may have worked on it for a quarter of an hour.
LONGEST_DELAY_S = 43_200 - 900
_TIMEOUT_MS = 5_000
# What one call may take: two tries, and the pause between them.
LONGEST_CALL_MS = 11_000

# Refusals that speak of the queue, its key or our credentials: any message would meet them, and a
# change of the deployment helps.
_OF_THE_QUEUE = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidAddress",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NonExistentQueue",
        "NotAuthorized",
        "OptInRequired",
        "OverLimit",
        "QueueDeletedRecently",
        "QueueDoesNotExist",
        "RequestExpired",
        "RequestThrottled",
        "SignatureDoesNotMatch",
        "Throttling",
        "ThrottlingException",
        "UnrecognizedClientException",
    }
)
# Refusals that are certain to come again, because they speak of what stands in the message.
_OF_THE_MESSAGE = frozenset({"BatchRequestTooLong", "InvalidMessageContents", "MessageTooLong"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message to be sent. `group` is that of a FIFO queue, where `id` deduplicates."""

    id: str
    body: str = field(repr=False)
    group: str | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes of a batch."""
        return len(self.body.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class Rejected:
    """An entry that the queue did not take.

    `is_final`: it refuses this entry, and not because of a failure of its own.
    """

    id: str
    reason: str
    is_final: bool

    @property
    def is_certain(self) -> bool:
        """Whether the queue will never take it: what it says is wrong stands in the message."""
        return self.is_final and _plain(self.reason) in _OF_THE_MESSAGE


def refuses_entries(error: StoreError) -> bool:
    """Whether the queue is well, and has refused what it was sent, all of it for one entry.

    Or whether the request could not even be written down, for one entry.
    """
    return error.is_mistake or not (error.transient or _is_of_the_queue(error.reason))


def _is_of_the_queue(code: str) -> bool:
    # Missing credentials and the like have the name of their exception.
    plain = _plain(code)
    return plain in _OF_THE_QUEUE or plain.endswith("Error") or code.lower().startswith("kms")


def _plain(code: str) -> str:
    # Some begin with "AWS.SimpleQueueService.".
    return code.rpartition(".")[2]


class SqsQueue:
    """One queue. Creating it sends nothing; a client is made at the first call.

    `call_timeout_ms` is for whoever has no time for more than one try of a call.
    """

    def __init__(
        self, url: str, *, client: SQSClient | None = None, call_timeout_ms: int | None = None
    ) -> None:
        self._url = url
        self._client = client
        self._call_timeout_ms = call_timeout_ms

    @property
    def is_fifo(self) -> bool:
        """Whether its messages need a group; SQS has such a queue's name end like that."""
        return self._url.endswith(".fifo")

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Send up to `MOST_ENTRIES` entries of at most `MOST_BATCH_BYTES`; those not taken.

        When it returns, every other entry is in the queue. An entry may be in it twice if an answer
        was lost.

        Raises:
            StoreError: the queue did not answer, and any of the entries may be in it; or it has
                refused all of them (`refuses_entries`), and none is.
        """
        request: Any = [self._request(number, entry) for number, entry in enumerate(entries)]
        try:
            client = self._connected()
        except Exception as error:
            # Whatever it is, it is no message's fault.
            name = type(error).__name__
            raise StoreError(name, transient=store_error(error).transient) from error
        try:
            answer = client.send_message_batch(QueueUrl=self._url, Entries=request)
        except Exception as error:
            raise store_error(error) from error
        return [
            Rejected(
                entries[int(each["Id"])].id,
                each["Code"],
                is_final=each["SenderFault"] and not _is_of_the_queue(each["Code"]),
            )
            for each in answer.get("Failed", [])
        ]

    def hide(self, receipt_handle: str, delay_s: int) -> None:
        """Deliver the message that was received under this handle again, but not before `delay_s`.

        Raises:
            StoreError: the queue did not answer, or no longer knows the handle; the message may
                come again at any time.
        """
        try:
            self._connected().change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt_handle, VisibilityTimeout=delay_s
            )
        except Exception as error:
            raise store_error(error) from error

    def hide_all(self, delays: Sequence[tuple[str, int]]) -> None:
        """The same of many messages, each with its own delay.

        Raises:
            StoreError: as above, for any of them; the others were put off as far as it is known.
        """
        refused: list[Any] = []
        for start in range(0, len(delays), MOST_ENTRIES):
            entries: Any = [
                {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": delay_s}
                for number, (handle, delay_s) in enumerate(delays[start : start + MOST_ENTRIES])
            ]
            try:
                answer: Any = self._connected().change_message_visibility_batch(
                    QueueUrl=self._url, Entries=entries
                )
            except Exception as error:
                raise store_error(error) from error
            refused += answer.get("Failed", [])
        for each in refused:
            raise StoreError(str(each["Code"]), transient=not each["SenderFault"])

    def visibility_timeout_s(self) -> int:
        """For how long the queue hides what it has handed out.

        Raises:
            StoreError: the queue did not answer.
        """
        try:
            answer: Any = self._connected().get_queue_attributes(
                QueueUrl=self._url, AttributeNames=["VisibilityTimeout"]
            )
        except Exception as error:
            raise store_error(error) from error
        return int(answer["Attributes"]["VisibilityTimeout"])

    def _request(self, number: int, entry: Entry) -> dict[str, Any]:
        request: dict[str, Any] = {"Id": str(number), "MessageBody": entry.body}
        if entry.group is not None:
            request |= {
                "MessageGroupId": entry.group,
                "MessageDeduplicationId": queue_name(entry.id),
            }
        return request

    def _connected(self) -> SQSClient:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = _own_client(self._call_timeout_ms)
        return self._client

    def __repr__(self) -> str:
        return "SqsQueue"


def _own_client(call_timeout_ms: int | None) -> SQSClient:
    import boto3  # noqa: PLC0415 -- as in dynamodb_client: importing the library needs nothing
    from botocore.config import Config  # noqa: PLC0415

    timeout_s = (call_timeout_ms or _TIMEOUT_MS) / 3000
    config = Config(
        connect_timeout=timeout_s,
        read_timeout=2 * timeout_s,
        retries={"total_max_attempts": 1 if call_timeout_ms else 2, "mode": "standard"},
        user_agent_extra="oncekey",
    )
    client: SQSClient = boto3.client("sqs", config=config)
    return client
