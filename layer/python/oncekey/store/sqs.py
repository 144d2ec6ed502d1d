"""The queue. This is the only module that uses SQS's API.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError, StoreError
from oncekey.record.message_text import queue_name
from oncekey.store.aws_errors import is_of_unsent, store_error
from oncekey.store.dynamodb.client import making_a_client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_sqs import SQSClient

MOST_ENTRIES = 10
# SQS's limit has been 1 MiB since 2025. This lower limit holds for every queue and every emulator.
MOST_BATCH_BYTES = 256 * 1024
# SQS can hide a message for at most twelve hours after its receipt, and refuses a longer time. A
# Lambda function with an event source may already have worked on it for 90 minutes.
LONGEST_DELAY_S = 43_200 - 5_400
_TIMEOUT_MS = 5_000
# A method of boto3's client that those of other services lack.
_CLIENT_HAS = "send_message_batch"
# The longest that one call may take: two attempts and the pause between them.
LONGEST_CALL_MS = 11_000

# Errors of the queue, its encryption key or our credentials. Every message would get them, and a
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
# Errors of the message itself, which every retry would get again.
_OF_THE_MESSAGE = frozenset({"BatchRequestTooLong", "InvalidMessageContents", "MessageTooLong"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message to be sent. `group` is mostly for a FIFO queue, which deduplicates by `id`.

    `traceparent` is the span that the message belongs to, if it is traced.
    """

    id: str
    body: str = field(repr=False)
    group: str | None = None
    traceparent: str = field(default="", repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """Its share of a batch's size."""
        return len(self.body.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class Rejected:
    """An entry that the queue did not accept.

    `is_final`: the cause is this entry, not a failure of the queue.
    """

    id: str
    reason: str
    is_final: bool

    @property
    def is_certain(self) -> bool:
        """Whether the queue will never accept it, because the error is in the message itself."""
        return self.is_final and _plain(self.reason) in _OF_THE_MESSAGE


def refuses_entries(error: StoreError) -> bool:
    """Whether one entry made the whole request fail, while the queue is healthy.

    SQS refused the request, or it could not be built.
    """
    return error.is_mistake or not (error.transient or _is_of_the_queue(error.reason))


def _is_of_the_queue(code: str) -> bool:
    # For missing credentials and the like, the code is the name of the exception.
    plain = _plain(code)
    return plain in _OF_THE_QUEUE or plain.endswith("Error") or code.lower().startswith("kms")


def _plain(code: str) -> str:
    # Some codes begin with "AWS.SimpleQueueService.".
    return code.rpartition(".")[2]


class SqsQueue:
    """One queue. Creating this object sends nothing. The first call creates the client.

    With `call_timeout_ms`, a call makes one attempt and no retry.

    Raises:
        ConfigurationError: `url` is no text, or `client` is no client of SQS.
    """

    def __init__(
        self, url: str, *, client: SQSClient | None = None, call_timeout_ms: int | None = None
    ) -> None:
        faults = [*_faults(url, client)]
        if faults:
            raise ConfigurationError("SqsQueue", faults)
        self._url = url
        self._client = client
        self._call_timeout_ms = call_timeout_ms

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO queue, whose messages need a group. SQS requires the suffix."""
        return self._url.endswith(".fifo")

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Send up to `MOST_ENTRIES` entries of at most `MOST_BATCH_BYTES` together.

        It returns the entries that the queue did not accept. All others are then in the queue. An
        entry may be in it twice if an answer was lost.

        Raises:
            StoreError: the queue did not answer, and any entry may be in it. Or it has refused all
                of them (`refuses_entries`), and none is in it.
        """
        request: Any = [self._request(number, entry) for number, entry in enumerate(entries)]
        try:
            client = self._connected()
        except Exception as error:
            # No message is the cause of this failure.
            name = type(error).__name__
            raise StoreError(name, transient=store_error(error).transient) from error
        try:
            answer = client.send_message_batch(QueueUrl=self._url, Entries=request)
        except Exception as error:
            raise store_error(error, self._client) from error
        return [
            Rejected(
                entries[int(each["Id"])].id,
                each["Code"],
                is_final=each["SenderFault"] and not _is_of_the_queue(each["Code"]),
            )
            for each in answer.get("Failed", [])
        ]

    def hide(self, receipt_handle: str, delay_s: int) -> None:
        """Have the message of this handle delivered again, `delay_s` seconds from now or later.

        Raises:
            StoreError: the queue did not answer, or no longer knows the handle. The message may be
                delivered again at any time.
        """
        try:
            self._connected().change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt_handle, VisibilityTimeout=delay_s
            )
        except Exception as error:
            raise store_error(error, self._client) from error

    def hide_all(self, delays: Sequence[tuple[str, int]]) -> None:
        """The same for many messages, each with its own delay.

        Raises:
            StoreError: as above, for at least one of them. Others may have been hidden.
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
                raise store_error(error, self._client) from error
            refused += answer.get("Failed", [])
        for each in refused:
            raise StoreError(str(each["Code"]), transient=not each["SenderFault"])

    def visibility_timeout_s(self) -> int:
        """For how long the queue hides a message after it was received.

        Raises:
            StoreError: the queue did not answer.
        """
        try:
            answer: Any = self._connected().get_queue_attributes(
                QueueUrl=self._url, AttributeNames=["VisibilityTimeout"]
            )
        except Exception as error:
            raise store_error(error, self._client) from error
        return int(answer["Attributes"]["VisibilityTimeout"])

    def _request(self, number: int, entry: Entry) -> dict[str, Any]:
        request: dict[str, Any] = {"Id": str(number), "MessageBody": entry.body}
        if entry.group is not None:
            request["MessageGroupId"] = entry.group
            if self.is_fifo:
                # A standard queue takes a group, and refuses this.
                request["MessageDeduplicationId"] = queue_name(entry.id)
        return request

    def _connected(self) -> SQSClient:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = _own_client(self._call_timeout_ms)
        return self._client

    def __repr__(self) -> str:
        return "SqsQueue"


def _faults(url: object, client: object) -> Iterator[str]:
    if not isinstance(url, str) or not url.strip():
        yield f"url is {url!r}: the queue's URL is needed, as text"
    if client is not None and (isinstance(client, type) or not hasattr(client, _CLIENT_HAS)):
        yield f"client is a {type(client).__name__}: pass boto3.client('sqs'), or leave it out"


def _own_client(call_timeout_ms: int | None) -> SQSClient:
    import boto3
    from botocore.config import Config

    timeout_s = (call_timeout_ms or _TIMEOUT_MS) / 3000
    config = Config(
        connect_timeout=timeout_s,
        read_timeout=2 * timeout_s,
        retries={"total_max_attempts": 1 if call_timeout_ms else 2, "mode": "standard"},
        user_agent_extra="oncekey",
    )
    client: SQSClient = boto3.client("sqs", config=config)
    client.meta.events.register("needs-retry.sqs", _note_unsent)
    return client


def _note_unsent(
    request_dict: dict[str, Any], caught_exception: Exception | None = None, **_: object
) -> None:
    """Mark the exception of a call if no attempt has sent anything; `store_error` reads the mark.

    botocore calls this after every attempt, and raises the exception of the last one.
    """
    context = request_dict["context"]
    is_unsent = context.get("oncekey_unsent", True) and is_of_unsent(caught_exception)
    context["oncekey_unsent"] = is_unsent
    if caught_exception is not None:
        caught_exception.unsent = is_unsent  # type: ignore[attr-defined]  # a mark of our own
