"""How the answer of an operation is encoded, how long it is stored, and how late its calls may be.

The record carries this policy. A handler, a resolver, a webhook or a person may end the operation,
and none of them needs to know the handler's options.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.settings import RECONCILE_GRACE_MS
from oncekey.value import Value

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.settings import Settings

# A job's message lives at most 14 days in its queue and 14 in the dead-letter queue.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-basic-architecture.html
LONGEST_WORK_S = 28 * 24 * 3600
# The default preset.
IETF_NAME = "ietf"


class Encoding(StrEnum):
    """How the answer of an operation is stored."""

    HTTP = "http"  # an HTTP answer, by `oncekey.http.answer`
    RESULT = "result"  # the result of a function, by `oncekey.encoding.results`


class Policy(Value, kw_only=True):
    """How the answers of one operation are stored, and how late its calls may arrive.

    Args:
        encoding: the form of the stored answer; None if the record does not say it.
        retention_s: how long an answer is replayed, counted from its completion.
        gone_for_s: how long after that its key counts as expired (410).
        response_version: the version of the answers.
        preset: the name of the preset that words the library's own answers.
        is_queued: whether the operation is a job, whose message may be delivered again later.
        grace_ms: how long after its lease a call of a dead attempt may still arrive.
    """

    encoding: Encoding | None
    retention_s: int
    gone_for_s: int = 0
    response_version: int = 1
    preset: str = IETF_NAME
    is_queued: bool = False
    grace_ms: int = RECONCILE_GRACE_MS

    @property
    def kept_s(self) -> int:
        """How long a settled record is stored."""
        return self.retention_s + self.gone_for_s

    def expires_at_s(self, now_ms: int) -> int:
        """When a record expires that is settled now. Rounded up, so that it is never too early."""
        return -(-now_ms // 1000) + self.kept_s

    def failure_expires_at_s(self, now_ms: int) -> int:
        """When a record expires that has failed now and may run again.

        A job's record outlives its message, which may be delivered again.
        """
        return self.expires_at_s(now_ms) + (LONGEST_WORK_S if self.is_queued else 0)

    def given_until_s(self, expires_at_s: int) -> int:
        """Until when an answer is replayed, if its record expires at `expires_at_s`."""
        return expires_at_s - self.gone_for_s


def policy_of(record: Record, settings: Settings) -> Policy:
    """The policy of `record`, or a safe one from `settings` if the record has none.

    Records of releases before the policy do not say how their answer is encoded, nor whether they
    are jobs. They are treated as jobs.
    """
    if record.policy is not None:
        return record.policy
    return Policy(
        encoding=None,
        retention_s=settings.retention_s,
        gone_for_s=settings.gone_for_s,
        is_queued=True,
    )
