"""The log lines of requests, one function for each event.

They never contain a key, a payload or an answer.
"""

from __future__ import annotations

import logging
import traceback
from functools import lru_cache
from typing import TYPE_CHECKING

from oncekey.record.references import reference_to
from oncekey.telemetry import watching

if TYPE_CHECKING:
    from oncekey.errors import StoreError
    from oncekey.record.record import Record

_logger = logging.getLogger("oncekey")

# Reasons of a refusal → metrics. Other refusals have lines of their own, or need no metric.
_REFUSALS = {
    "request-in-progress": "InProgress",
    "key-reused": "KeyReused",
    "outcome-unknown": "OutcomeUnknown",
}


def say(
    level: int, event: str, record: Record, now_ms: int, remark: str = "", **more: object
) -> None:
    """Log a line about one record, with its usual fields and `more`."""
    if not _logger.isEnabledFor(level):
        return
    fields: dict[str, object] = {
        "oncekey_event": event,
        "operation": record.operation,
        "operation_id": record.operation_id,
        # `oncekey show` takes it. It has a hash, and says nothing about the client's key.
        "reference": reference_to(record),
        "attempt": record.attempt,
        "owner": record.owner,
        "age_ms": now_ms - record.created_at_ms,
        **more,
    }
    if record.lease_until_ms is not None:
        fields["lease_left_ms"] = record.lease_until_ms - now_ms
    _logger.log(
        level,
        "oncekey %s: %s %s attempt %s%s",
        event,
        record.operation,
        record.operation_id,
        record.attempt,
        f": {remark}" if remark else "",
        extra=fields,
    )


def reserved(record: Record, now_ms: int) -> None:
    """An attempt begins."""
    if record.attempt > 1:
        watching.count("FailedRetried", record.operation)
    elif record.policy is None or not record.policy.is_queued:
        # A job was counted when it was accepted.
        watching.count("Reserved", record.operation)
    say(logging.DEBUG, "reserved", record, now_ms)


def accepted(record: Record, now_ms: int) -> None:
    """A request waits for a worker."""
    watching.count("Reserved" if record.attempt == 1 else "FailedRetried", record.operation)
    say(logging.DEBUG, "accepted", record, now_ms)


def replayed(record: Record, now_ms: int) -> None:
    """A stored answer is replayed."""
    watching.count("Replayed", record.operation)
    say(logging.DEBUG, "replayed", record, now_ms)


def refused(reason: str, record: Record, now_ms: int) -> None:
    """A request was refused because of an existing record.

    Then: the client may wait.
    """
    metric = _REFUSALS.get(reason)
    if metric is not None:
        watching.count(metric, record.operation)
    say(logging.INFO, "refused", record, now_ms, reason)


def paused(operation: str, scope: str) -> None:
    """New work was refused because its operation or tenant is [paused](../guides/pausing.md).

    Then: the client or the queue comes back.
    """
    watching.count("Paused", operation)
    _logger.info(
        "oncekey paused: %s: the %s is paused",
        operation,
        scope,
        extra={"oncekey_event": "paused", "operation": operation, "paused": scope},
    )


def lease_expired(record: Record, now_ms: int) -> None:
    """An attempt was killed, or its lease was too short.

    Then: its kind of effects decides: it resumes, runs again, or is unknown.
    """
    watching.count("LeaseExpired", record.operation)
    say(logging.WARNING, "lease-expired", record, now_ms)


def outcome_unknown(record: Record, now_ms: int, reason: str) -> None:
    """An attempt ended, and nobody knows what it did.

    Then: the reconciler asks its resolver, or
    [escalates](../guides/unknown-outcomes.md#find-out-why).
    """
    watching.count("OutcomeUnknown", record.operation)
    say(logging.WARNING, "outcome-unknown", record, now_ms, reason)


def not_executed(record: Record, now_ms: int, reason: str) -> None:
    """An attempt ended without an effect.

    Then: the same key may run again.
    """
    say(logging.INFO, "not-executed", record, now_ms, reason)


def forgotten_while_suspended(record: Record, now_ms: int) -> None:
    """A durable execution waits for longer than `retention`, and nothing is on record.

    It resumes as a new operation.

    To do: [raise `retention=`, or commit
    first](../guides/durable-executions.md#a-suspension-is-not-a-failure).
    """
    reason = "raise retention= above the wait, or finish an op.step or op.commit before it"
    say(logging.WARNING, "forgotten-while-suspended", record, now_ms, reason)


def answer_not_recorded(record: Record, now_ms: int, error: StoreError) -> None:
    """The work is done and its caller is told, but the record could not be written.

    Then: the reconciler settles it.
    """
    watching.count("StoreErrors", record.operation)
    say(logging.ERROR, "answer-not-recorded", record, now_ms, error.reason)


def ending_not_recorded(record: Record, now_ms: int, error: StoreError) -> None:
    """An attempt ended without an answer, and that could not be written.

    Then: its lease runs out.
    """
    watching.count("StoreErrors", record.operation)
    say(logging.ERROR, "ending-not-recorded", record, now_ms, error.reason)


def answer_not_kept(record: Record, now_ms: int, reason: str) -> None:
    """The work is done and recorded, but its answer cannot be given again.

    To do: give the service a response bucket.
    """
    say(logging.ERROR, "answer-not-kept", record, now_ms, reason)


def answer_unavailable(record: Record, now_ms: int, reason: str) -> None:
    """A stored answer is missing, damaged or was never kept; nothing runs again.

    To do: find out who removes objects from the bucket.
    """
    say(logging.ERROR, "answer-unavailable", record, now_ms, reason)


def unprotected(operation: str) -> None:
    """A request without a key ran, because the operation does not require one."""
    _logger.info(
        "oncekey unprotected: %s",
        operation,
        extra={"oncekey_event": "unprotected", "operation": operation},
    )


def request_not_understood(selector: str, error: Exception) -> None:
    """`fingerprint=` raised on a request, which was refused as invalid.

    The error's text is not logged, because it may repeat the client's data.

    To do: check whether the code has a mistake.
    """
    _logger.warning(
        "oncekey request-not-understood: fingerprint=%s raised %s",
        selector,
        type(error).__name__,
        extra={"oncekey_event": "request-not-understood"},
    )


def failure_stored(operation: str, error: BaseException) -> None:
    """A handler raised, and the failure is its stored answer; the line says where.

    The place is logged, but not the error's text, which may contain a payload.

    To do: correct the handler.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
    _logger.error(
        "oncekey failure-stored: %s: %s at %s",
        operation,
        type(error).__name__,
        where,
        extra={"oncekey_event": "failure-stored", "operation": operation, "where": where},
    )


def ownership_lost(record: Record, now_ms: int) -> None:
    """An attempt ended after somebody else had taken over or settled its record.

    To do: check whether the lease is shorter than the work.
    """
    say(logging.ERROR, "ownership-lost", record, now_ms)


def store_unavailable(operation: str, error: StoreError) -> None:
    """A request was refused, because a call to the store failed.

    Its handler did not run, or its commit was not confirmed. `kind` says which failure it is: an
    outage and contention pass; a mistake in the configuration or in the call must be corrected.

    To do: see its `kind`: `outage` and `contention` pass; `configuration` and `mistake` stay until
    you correct them.
    """
    watching.count("StoreErrors", operation)
    _logger.error(
        "oncekey store-unavailable: %s: %s",
        operation,
        error.reason,
        extra={
            "oncekey_event": "store-unavailable",
            "kind": error.kind,
            "operation": operation,
            "reason": error.reason,
        },
    )


@lru_cache(maxsize=256)
def key_ignored(operation: str, method: str) -> None:
    """A client sent a key with a method that is not protected.

    To do: [list the method](http-contract.md#methods), or tell the client.
    """
    _logger.warning(
        "oncekey: %s got an Idempotency-Key with %s, which is not among its methods:"
        " the request ran unprotected",
        operation,
        method,
        extra={"oncekey_event": "key-ignored", "operation": operation},
    )


@lru_cache(maxsize=256)
def method_refused(operation: str, method: str) -> None:
    """A method was refused (405), because it would run unprotected.

    To do: [list the method](http-contract.md#methods), or give it a handler of its own.
    """
    _logger.warning(
        "oncekey: %s refused a request with %.20r (405), which would have run unprotected: list it"
        " in methods= to have it protected, or give it a handler of its own",
        operation,
        method,
        extra={"oncekey_event": "method-refused", "operation": operation},
    )


@lru_cache(maxsize=256)
def retention_too_short(operation: str, retention_s: int) -> None:
    """Answers are forgotten before a lease can end.

    To do: raise `retention=`.
    """
    _logger.warning(
        "oncekey: answers of %s are kept for %s s, which is shorter than the lease: a client that"
        " retries after that runs again",
        operation,
        retention_s,
        extra={"oncekey_event": "retention-too-short", "operation": operation},
    )


@lru_cache(maxsize=256)
def caller_not_named(operation: str, why: str) -> None:
    """A request was answered 403, because its tenant is not known.

    To do: check the authorizer and `tenant=`.
    """
    _logger.warning(
        "oncekey tenant-missing: %s: %s",
        operation,
        why,
        extra={"oncekey_event": "tenant-missing", "operation": operation, "reason": why},
    )


@lru_cache(maxsize=256)
def lease_without_context(operation: str, lease_ms: int) -> None:
    """A call in Lambda got no context, so it has the default lease.

    To do: pass the context on, or set `ONCEKEY_DEFAULT_LEASE_MS` to the function's timeout.
    """
    _logger.warning(
        "oncekey: a call of %s was given no Lambda context: its lease ends after the default of %s"
        " ms, whatever time the invocation has. Pass the context on as an argument, or set"
        " ONCEKEY_DEFAULT_LEASE_MS to the function's timeout",
        operation,
        lease_ms,
        extra={"oncekey_event": "lease-without-context", "operation": operation},
    )


def commit_contended(record: Record, now_ms: int, error: StoreError) -> None:
    """A commit found its items, or the table, too busy until its time was up.

    Then: a retry finds out whether it was applied.
    """
    say(logging.WARNING, "commit-contended", record, now_ms, error.reason)


def step_result_not_kept(record: Record, now_ms: int, step: str, reason: str) -> None:
    """A step is done and on record without its result; no attempt can resume after it.

    To do: give the service a response bucket.
    """
    say(logging.ERROR, "step-result-not-kept", record, now_ms, f"{step}: {reason}")


def run_stopped(record: Record, now_ms: int, reason: str) -> None:
    """An attempt of a recorded operation must not go on; the line says why.

    To do: after `steps-changed`, compare the handler's steps with those on record; after
    `step-result-lost`, find out where the result went; after `ownership-lost`, check whether the
    lease is shorter than the work. After any other reason do nothing: a retry resumes, or, if a
    step is in doubt, the outcome is unknown until its resolver or a person settles it.
    """
    say(logging.ERROR, "run-stopped", record, now_ms, reason)


@lru_cache(maxsize=256)
def operation_unused(operation: str) -> None:
    """A handler of recorded effects ended without using `op`, so its effects are not recorded.

    To do: use `op`.
    """
    _logger.warning(
        "oncekey: %s is declared effects='recorded' and did not use its operation object: effects"
        " made without op.transaction, op.outbox or op.step are not recorded, and run again",
        operation,
        extra={"oncekey_event": "operation-unused", "operation": operation},
    )


def rule_failed(operation: str, error: Exception) -> None:
    """The predicate of `not_executed=` raised; that counts as "not proven".

    To do: correct the predicate.
    """
    _logger.error(
        "oncekey: the not_executed predicate of %s raised %s: nothing is proven by it",
        operation,
        type(error).__name__,
        extra={"oncekey_event": "rule-failed", "operation": operation},
    )
