"""How the answer of an operation is kept. The record says it, to whoever ends the operation.

A handler, a resolver, a webhook or a person may give the answer. Each of them reads here how it is
encoded and until when it is kept, and nobody has to know the handler's options.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.settings import Settings

# An accepted request's message lives at most 14 days in its queue and 14 in the dead-letter queue.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-basic-architecture.html
LONGEST_WORK_S = 28 * 24 * 3600
# The preset that most have.
IETF_NAME = "ietf"


class Encoding(StrEnum):
    """How the answer of an operation is stored."""

    HTTP = "http"  # an HTTP answer, by `oncekey.http.answer`
    RESULT = "result"  # the result of a function, by `oncekey.encoding.results`


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the answers of one operation are kept.

    Args:
        encoding: how they are stored; None where the record does not say.
        retention_s: how long an answer is given, from its completion.
        gone_for_s: for how long after that its key counts as expired (410).
        response_version: the version of the answers.
        preset: the name of the preset that words what is said in the handler's place.
        is_queued: whether it is accepted for a worker, so that its message may come back later.
    """

    encoding: Encoding | None
    retention_s: int
    gone_for_s: int = 0
    response_version: int = 1
    preset: str = IETF_NAME
    is_queued: bool = False

    @property
    def kept_s(self) -> int:
        """How long a settled record is kept."""
        return self.retention_s + self.gone_for_s

    def expires_at_s(self, now_ms: int) -> int:
        """When a record settled now expires. Rounded up: no answer is forgotten too early."""
        return -(-now_ms // 1000) + self.kept_s

    def failure_expires_at_s(self, now_ms: int) -> int:
        """When a record expires that has failed now, and may run again.

        What was accepted lives for as long as its message may come back.
        """
        return self.expires_at_s(now_ms) + (LONGEST_WORK_S if self.is_queued else 0)

    def given_until_s(self, expires_at_s: int) -> int:
        """Until when the answer of a record that expires then is given."""
        return expires_at_s - self.gone_for_s


def policy_of(record: Record, settings: Settings) -> Policy:
    """The policy of `record`; of one that does not say it, the safe side of `settings`.

    Records of releases before there was a policy say neither how their answer is encoded, nor
    whether they were accepted for a worker.
    """
    if record.policy is not None:
        return record.policy
    return Policy(
        encoding=None,
        retention_s=settings.retention_s,
        gone_for_s=settings.gone_for_s,
        is_queued=True,
    )
