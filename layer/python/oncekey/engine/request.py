"""A request with its key: its caller, its operation, its settings and its deadline."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from oncekey.engine.store_state import StoreState
from oncekey.errors import ConfigurationError, StoreError
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.stored_answer import ERASED
from oncekey.telemetry import watching
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oncekey.engine.job import Job
    from oncekey.engine.operation_options import OperationOptions
    from oncekey.record.identity import Identity
    from oncekey.settings import Settings


# The first sending of a request arrives within this time, however slow the network is.
_A_MOMENT_MS = 60_000

_OPERATION_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Request(Value, kw_only=True):
    """Everything that the engine needs to know about one request.

    `deadline_ms` is the time (epoch milliseconds) when this invocation is killed.
    """

    identity: Identity
    fingerprint: str = field(repr=False)
    options: OperationOptions
    deadline_ms: int
    store_state: StoreState = field(default_factory=StoreState, repr=False)
    # Whether a different fingerprint is the same request, under an older algorithm or secret.
    accepts: Callable[[str], bool] | None = field(default=None, repr=False)
    # When the client first sent the request, if the client tells it.
    first_sent_ms: int | None = None
    # The job for a worker; None if the handler runs at once.
    job: Job | None = None
    # The event, if the operation may have to be completed without its client.
    stored_event: str | bytes | None = field(default=None, repr=False)
    # The answer to store if no worker begins the accepted request in time.
    timed_out: str | None = field(default=None, repr=False)

    @property
    def pk(self) -> str:
        """The record's partition key."""
        return self.identity.pk

    def lease_until_ms(self, now_ms: int) -> int:
        """The end of a lease that is taken now.

        It is the deadline plus a margin for clocks that differ, or `max_lease_ms` from now if that
        is earlier.
        """
        until_ms = self.deadline_ms + self.options.settings.lease_margin_ms
        longest_ms = self.options.settings.max_lease_ms
        return until_ms if longest_ms is None else min(until_ms, now_ms + longest_ms)

    def is_a_late_retry(self, now_ms: int) -> bool:
        """Whether the client says that it first sent the request more than a minute ago."""
        return self.first_sent_ms is not None and self.first_sent_ms + _A_MOMENT_MS < now_ms

    def is_too_old_to_begin(self, now_ms: int, expired: Record | None = None) -> bool:
        """Whether the answer to this request may have expired, so that the handler must not run.

        This holds if the request was first sent longer ago than the retention. It also holds if it
        was first sent before the operation of the `expired` record ended: that record may have been
        this request's, and may have had a shorter retention.
        """
        sent_ms = self.first_sent_ms
        if sent_ms is None:
            return False
        ended_ms = expired.completed_at_ms if expired is not None else None
        is_before = ended_ms is not None and sent_ms <= ended_ms
        return is_before or sent_ms + self.options.settings.retention_ms < now_ms

    def forgets_too_early(self, now_ms: int) -> bool:
        """Whether an answer may expire before the lease of an attempt that begins now ends."""
        remembered_ms = self.options.settings.retention_ms + 1000 * self.options.settings.gone_for_s
        return remembered_ms <= self.lease_until_ms(now_ms) - now_ms

    def due(self, at_ms: int) -> Due:
        """The index entry with which the reconciler finds the record at `at_ms`."""
        return Due(shard=self.identity.due_shard(self.options.settings.due_shards), at_ms=at_ms)

    def due_after_lease(self, lease_until_ms: int) -> Due:
        """When the reconciler must look at an attempt that may be dead.

        It is after the lease plus the grace, in which calls of the attempt may still arrive.
        """
        return self.due(lease_until_ms + self.options.settings.reconcile_grace_ms)

    def expires_at_s(self, now_ms: int) -> int:
        """When a record that is completed now expires."""
        return self.options.policy.expires_at_s(now_ms)

    def failure_expires_at_s(self, now_ms: int) -> int:
        """When a record that fails now, and may run again, expires."""
        return self.options.policy.failure_expires_at_s(now_ms)

    def refuse_foreign(self, record: Record) -> None:
        """Refuse a record under this request's key that was not written for it.

        Only a mistake puts one there, such as a script that copies items. Its answer may be another
        tenant's.

        Raises:
            StoreError: it names another tenant, operation, principal or key, or its operation id is
                damaged. Nothing may be replayed or run.
        """
        own = self.identity
        is_own = (
            # An erased record names no tenant, and has no answer to show.
            (record.tenant == own.tenant or record.response == ERASED)
            and record.operation == own.operation
            # These are empty if the operation does not store them.
            and record.principal in {"", own.principal}
            and record.key in {"", own.key}
        )
        if not is_own:
            raise StoreError("the stored record belongs to another key", transient=False)
        if _OPERATION_ID.fullmatch(record.operation_id) is None:
            # Every id that a retry derives from it would differ from the first attempt's.
            raise StoreError("the stored record has no operation id", transient=False)

    def new_record(self, *, operation_id: str, owner: str, now_ms: int) -> Record:
        """The record of a first attempt, which begins now or waits for a worker."""
        until_ms = self.lease_until_ms(now_ms) if self.job is None else None
        return Record(
            pk=self.pk,
            status=Status.IN_PROGRESS if self.job is None else Status.PENDING,
            rev=1,
            tenant=self.identity.tenant,
            principal=self.identity.principal if self.options.stores_raw_key else "",
            operation=self.identity.operation,
            key=self.identity.key if self.options.stores_raw_key else "",
            operation_id=operation_id,
            fingerprint=self.fingerprint,
            owner=owner,
            attempt=1,
            effects=self.options.effects,
            created_at_ms=now_ms,
            request=self.stored_event,
            request_digest=None if self.job is None else self.job.request_digest,
            policy=self.options.policy,
            traceparent=watching.traceparent(),
            lease_until_ms=until_ms,
            due=self.due(now_ms + self.options.settings.start_within_ms)
            if until_ms is None
            else self.due_after_lease(until_ms),
        )


def deadline_ms(context: Any, settings: Settings, now_ms: int) -> int:
    """When this invocation is killed; without a Lambda context, when its default lease ends."""
    left_ms = remaining_ms(context)
    return now_ms + (settings.default_lease_ms if left_ms is None else left_ms)


def remaining_ms(context: Any) -> int | None:
    """The remaining time of this invocation in milliseconds; None without a Lambda context.

    Zero means that the time is up.
    """
    # A proxy or a wrapper of a context is accepted as well. An object that does not answer with a
    # number, such as a mock, is not a context.
    ask = getattr(context, "get_remaining_time_in_millis", None)
    if ask is None and _is_durable(context):
        ask = getattr(context.lambda_context, "get_remaining_time_in_millis", None)
    left_ms = ask() if callable(ask) else None
    if not isinstance(left_ms, int | float) or isinstance(left_ms, bool):
        return None
    return int(left_ms) if math.isfinite(left_ms) else None


def refuse_suspension(name: str, effects: Effects, arguments: Iterable[Any]) -> None:
    """Refuse unrecorded work that a durable execution of AWS could suspend.

    Its key could not be freed, because a second execution would run what the first has done, and
    its outcome is not unknown either.

    Raises:
        ConfigurationError: the effects are unrecorded, and an argument is a durable context.
    """
    if effects is Effects.UNRECORDED and any(map(_is_durable, arguments)):
        fault = (
            "it gets the context of a durable execution, which may suspend it: call it inside"
            " context.step(...) with context.lambda_context, or declare effects='recorded' or"
            " 'repeatable'"
        )
        raise ConfigurationError(name, [fault])


def _is_durable(context: Any) -> bool:
    try:
        execution = getattr(context, "execution_context", None)
        return isinstance(getattr(execution, "durable_execution_arn", None), str)
    except Exception:  # noqa: BLE001 -- an object that raises here is not a context
        return False
