"""A client of SQS that refuses what SQS refuses; moto takes anything.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from oncekey.store.sqs import SqsQueue

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
NAME = re.compile(r"[a-zA-Z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
LARGEST_BYTES = 256 * 1024
MOST_ENTRIES = 10


class StrictSqs:
    """One queue by SQS's rules. `bodies` are what it has taken, in order.

    `refuses_whole` has a whole batch refused for one entry, as SQS does for some faults; otherwise
    the entry fails alone. `happens` is called before each request with its ids and may raise, or
    return which of them fail for a reason of the queue's own, with a code for each. `refuses` gives
    the code for an entry that is to be refused.
    """

    def __init__(self, *, fifo: bool = False, refuses_whole: bool = True) -> None:
        self.fifo = fifo
        self.refuses_whole = refuses_whole
        self.bodies: list[str] = []
        self.calls: list[list[str]] = []
        self.groups: list[str] = []
        self.happens: Callable[[list[str]], Any] = lambda _ids: None
        self.refuses: Callable[[str], str | None] = lambda _body: None
        self._known: set[str] = set()

    @property
    def queue(self) -> SqsQueue:
        """The queue as a relay has it."""
        url = "https://sqs.example/work.fifo" if self.fifo else "https://sqs.example/work"
        client: Any = self
        return SqsQueue(url, client=client)

    @property
    def ids(self) -> list[str]:
        """The ids of the messages that it has taken, in order."""
        return [json.loads(body)["id"] for body in self.bodies]

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 -- SQS's names
        """As SQS does it."""
        ids = [json.loads(entry["MessageBody"])["id"] for entry in Entries]
        self.calls.append(ids)
        own_faults: dict[str, str] = self.happens(ids) or {}
        if not 0 < len(Entries) <= MOST_ENTRIES or len({one["Id"] for one in Entries}) < len(ids):
            raise refusal("TooManyEntriesInBatchRequest")
        if sum(len(entry["MessageBody"].encode("utf-8")) for entry in Entries) > LARGEST_BYTES:
            raise refusal("AWS.SimpleQueueService.BatchRequestTooLong")
        failed: list[dict[str, Any]] = [
            {"Id": entry["Id"], "Code": own_faults[name], "SenderFault": False}
            for entry, name in zip(Entries, ids, strict=True)
            if name in own_faults
        ]
        for entry in Entries:
            code = self._fault(entry)
            if code is not None and self.refuses_whole:
                raise refusal(code)
            if code is not None:
                failed.append({"Id": entry["Id"], "Code": code, "SenderFault": True})
        refused = {each["Id"] for each in failed}
        for entry in Entries:
            if entry["Id"] not in refused:
                self._take(entry)
        return {"Failed": failed}

    def _fault(self, entry: dict[str, Any]) -> str | None:
        if not TEXT.fullmatch(entry["MessageBody"]):
            return "InvalidMessageContents"
        group, known_by = entry.get("MessageGroupId"), entry.get("MessageDeduplicationId")
        if self.fifo and (group is None or known_by is None):
            return "MissingParameter"
        if not self.fifo and known_by is not None:
            return "InvalidParameterValue"
        if not all(NAME.fullmatch(name) for name in (group, known_by) if name is not None):
            return "InvalidParameterValue"
        return self.refuses(entry["MessageBody"])

    def _take(self, entry: dict[str, Any]) -> None:
        if self.fifo:
            known_by = entry["MessageDeduplicationId"]
            if known_by in self._known:
                return
            self._known.add(known_by)
            self.groups.append(entry["MessageGroupId"])
        self.bodies.append(entry["MessageBody"])


def refusal(code: str, status: int = 400) -> ClientError:
    """An error of SQS about a whole request."""
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "SendMessageBatch")
