"""The queue: the only file that knows SQS.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.dynamodb_client import making_a_client
from oncekey.dynamodb_errors import store_error

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message to be sent. `group` is that of a FIFO queue, where `id` deduplicates."""

    id: str
    body: str
    group: str | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes of a batch."""
        return len(self.body.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class Rejected:
    """An entry that the queue did not take. `is_final`: it never will."""

    id: str
    reason: str
    is_final: bool


class SqsQueue:
    """One queue. Creating it sends nothing; a client is made at the first call."""

    def __init__(self, url: str, *, client: SQSClient | None = None) -> None:
        self._url = url
        self._client = client

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Send up to `MOST_ENTRIES` entries of at most `MOST_BATCH_BYTES`; those not taken.

        When it returns, every other entry is in the queue. An entry may be in it twice if an answer
        was lost.

        Raises:
            StoreError: the queue did not answer; any of the entries may be in it.
        """
        request: Any = [self._request(number, entry) for number, entry in enumerate(entries)]
        try:
            answer = self._connected().send_message_batch(QueueUrl=self._url, Entries=request)
        except Exception as error:
            raise store_error(error) from error
        return [
            Rejected(entries[int(each["Id"])].id, each["Code"], is_final=each["SenderFault"])
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

    def _request(self, number: int, entry: Entry) -> dict[str, Any]:
        request: dict[str, Any] = {"Id": str(number), "MessageBody": entry.body}
        if entry.group is not None:
            request |= {"MessageGroupId": entry.group, "MessageDeduplicationId": entry.id}
        return request

    def _connected(self) -> SQSClient:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = _own_client()
        return self._client

    def __repr__(self) -> str:
        return "SqsQueue"


def _own_client() -> SQSClient:
    import boto3  # noqa: PLC0415 -- as in dynamodb_client: importing the library needs nothing
    from botocore.config import Config  # noqa: PLC0415

    timeout_s = _TIMEOUT_MS / 3000
    config = Config(
        connect_timeout=timeout_s,
        read_timeout=2 * timeout_s,
        retries={"total_max_attempts": 2, "mode": "standard"},
        user_agent_extra="oncekey",
    )
    client: SQSClient = boto3.client("sqs", config=config)
    return client
