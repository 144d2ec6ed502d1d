"""The log lines of requests and settlements, one function for each event.

They never contain a key, a payload or an answer.
"""

from __future__ import annotations

import logging
import traceback
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.errors import StoreError
    from oncekey.record.record import Record

_logger = logging.getLogger("oncekey")


def _fields(event: str, record: Record, now_ms: int) -> dict[str, object]:
    return {
        "oncekey_event": event,
        "operation": record.operation,
        "operation_id": record.operation_id,
        "attempt": record.attempt,
        "owner": record.owner,
        "age_ms": now_ms - record.created_at_ms,
    }


def _say(level: int, event: str, record: Record, now_ms: int, remark: str = "") -> None:
    if not _logger.isEnabledFor(level):
        return
    fields = _fields(event, record, now_ms)
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
    _say(logging.DEBUG, "reserved", record, now_ms)


def accepted(record: Record, now_ms: int) -> None:
    """A request waits for a worker."""
    _say(logging.DEBUG, "accepted", record, now_ms)


def replayed(record: Record, now_ms: int) -> None:
    """A stored answer is replayed."""
    _say(logging.DEBUG, "replayed", record, now_ms)


def refused(reason: str, record: Record, now_ms: int) -> None:
    """A request was refused because of the record of its key."""
    _say(logging.INFO, "refused", record, now_ms, reason)


def paused(operation: str, scope: str) -> None:
    """New work was refused because an operator has paused the operation or the tenant."""
    _logger.info(
        "oncekey paused: %s: the %s is paused",
        operation,
        scope,
        extra={"oncekey_event": "paused", "operation": operation, "paused": scope},
    )


def lease_expired(record: Record, now_ms: int) -> None:
    """A record's lease is over: its attempt was killed, or the lease was too short."""
    _say(logging.WARNING, "lease-expired", record, now_ms)


def outcome_unknown(record: Record, now_ms: int, reason: str) -> None:
    """An attempt ended with an unknown outcome."""
    _say(logging.WARNING, "outcome-unknown", record, now_ms, reason)


def not_executed(record: Record, now_ms: int, reason: str) -> None:
    """An attempt ended without an effect, and may run again."""
    _say(logging.INFO, "not-executed", record, now_ms, reason)


def forgotten_while_suspended(record: Record, now_ms: int) -> None:
    """A durable execution resumes only after its record has expired, as a new operation."""
    reason = "raise retention= above the wait, or finish an op.step or op.commit before it"
    _say(logging.WARNING, "forgotten-while-suspended", record, now_ms, reason)


def answer_not_recorded(record: Record, now_ms: int, error: StoreError) -> None:
    """The work is done and the caller is answered, but the record could not be written.

    The reconciler settles it.
    """
    _say(logging.ERROR, "answer-not-recorded", record, now_ms, error.reason)


def ending_not_recorded(record: Record, now_ms: int, error: StoreError) -> None:
    """An attempt ended without an answer, and the record could not be written; its lease ends."""
    _say(logging.ERROR, "ending-not-recorded", record, now_ms, error.reason)


def answer_not_kept(record: Record, now_ms: int, reason: str) -> None:
    """The work is done and recorded, but its answer cannot be stored."""
    _say(logging.ERROR, "answer-not-kept", record, now_ms, reason)


def answer_unavailable(record: Record, now_ms: int, reason: str) -> None:
    """A stored answer is missing, damaged or was never stored. The operation does not run again."""
    _say(logging.ERROR, "answer-unavailable", record, now_ms, reason)


def unprotected(operation: str) -> None:
    """A request without a key was run, because the operation does not require one."""
    _logger.info(
        "oncekey unprotected: %s",
        operation,
        extra={"oncekey_event": "unprotected", "operation": operation},
    )


def request_not_understood(selector: str, error: Exception) -> None:
    """The author's `fingerprint=` raised on a request, which was refused as invalid.

    The error's text is not logged, because it may repeat the client's data.
    """
    _logger.warning(
        "oncekey request-not-understood: fingerprint=%s raised %s",
        selector,
        type(error).__name__,
        extra={"oncekey_event": "request-not-understood"},
    )


def failure_stored(operation: str, error: BaseException) -> None:
    """A handler raised, and the failure is its stored answer.

    The place is logged, but not the error's text, which may contain a payload.
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
    """An attempt ended after somebody else had taken over or settled its record."""
    _say(logging.ERROR, "ownership-lost", record, now_ms)


def store_unavailable(operation: str, error: StoreError) -> None:
    """A request was refused because a call to the store failed.

    Its handler did not run, or its commit was not confirmed. `kind` says which failure it is: an
    outage and contention pass; a mistake in the configuration or in the call must be corrected.
    """
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
    """A client sent a key with an unprotected method; logged once for each operation and method."""
    _logger.warning(
        "oncekey: %s got an Idempotency-Key with %s, which is not among its methods:"
        " the request ran unprotected",
        operation,
        method,
        extra={"oncekey_event": "key-ignored", "operation": operation},
    )


@lru_cache(maxsize=256)
def method_refused(operation: str, method: str) -> None:
    """The operation does not accept a request's method; logged once for each of these methods."""
    _logger.warning(
        "oncekey: %s refused a request with %.20r (405), which would have run unprotected: list it"
        " in methods= to have it protected, or give it a handler of its own",
        operation,
        method,
        extra={"oncekey_event": "method-refused", "operation": operation},
    )


@lru_cache(maxsize=256)
def retention_too_short(operation: str, retention_s: int) -> None:
    """Answers expire before an attempt's lease can end; logged once for each operation."""
    _logger.warning(
        "oncekey: answers of %s are kept for %s s, which is shorter than the lease: a client that"
        " retries after that runs again",
        operation,
        retention_s,
        extra={"oncekey_event": "retention-too-short", "operation": operation},
    )


@lru_cache(maxsize=256)
def caller_not_named(operation: str, why: str) -> None:
    """A request was answered 403, because its tenant is unknown; each reason is logged once."""
    _logger.warning(
        "oncekey tenant-missing: %s: %s",
        operation,
        why,
        extra={"oncekey_event": "tenant-missing", "operation": operation, "reason": why},
    )


@lru_cache(maxsize=256)
def lease_without_context(operation: str, lease_ms: int) -> None:
    """A call in Lambda got no Lambda context; logged once for each operation."""
    _logger.warning(
        "oncekey: a call of %s was given no Lambda context: its lease ends after the default of %s"
        " ms, whatever time the invocation has. Pass the context on as an argument, or set"
        " ONCEKEY_DEFAULT_LEASE_MS to the function's timeout",
        operation,
        lease_ms,
        extra={"oncekey_event": "lease-without-context", "operation": operation},
    )


def commit_contended(record: Record, now_ms: int, error: StoreError) -> None:
    """A commit gave up, because its items or the table were too busy until its time was up."""
    _say(logging.WARNING, "commit-contended", record, now_ms, error.reason)


def step_result_not_kept(record: Record, now_ms: int, step: str, reason: str) -> None:
    """A step is done and on record without its result: no attempt can resume after it."""
    _say(logging.ERROR, "step-result-not-kept", record, now_ms, f"{step}: {reason}")


def run_stopped(record: Record, now_ms: int, reason: str) -> None:
    """An attempt of a recorded operation had to stop; the line says why."""
    _say(logging.ERROR, "run-stopped", record, now_ms, reason)


def resolver_failed(record: Record, now_ms: int, reason: str) -> None:
    """A resolver raised or returned an invalid answer; the step stays in doubt."""
    _say(logging.ERROR, "resolver-failed", record, now_ms, reason)


def settled(record: Record, now_ms: int, what: str) -> None:
    """An unknown operation, or its step in doubt, was settled."""
    _say(logging.INFO, "settled", record, now_ms, what)


def settlement_overtaken(record: Record, now_ms: int) -> None:
    """Somebody else settled or ended the unknown operation first."""
    _say(logging.INFO, "settlement-overtaken", record, now_ms)


def nothing_to_settle(operation_id: str) -> None:
    """A settlement names an operation without a record: it has expired or never existed."""
    _logger.info(
        "oncekey nothing-to-settle: %s",
        operation_id,
        extra={"oncekey_event": "nothing-to-settle", "operation_id": operation_id},
    )


@lru_cache(maxsize=256)
def operation_unused(operation: str) -> None:
    """A handler of recorded effects did not use its operation object; logged once for each."""
    _logger.warning(
        "oncekey: %s is declared effects='recorded' and did not use its operation object: effects"
        " made without op.transaction, op.outbox or op.step are not recorded, and run again",
        operation,
        extra={"oncekey_event": "operation-unused", "operation": operation},
    )


def hook_failed(operation: str, kind: str, error: Exception) -> None:
    """The author's `on_event` raised; the call goes on. The error's text is not logged."""
    _logger.error(
        "oncekey: on_event of %s raised %s at %s",
        operation,
        type(error).__name__,
        kind,
        extra={"oncekey_event": "hook-failed", "operation": operation},
    )


def rule_failed(operation: str, error: Exception) -> None:
    """The author's `not_executed` predicate raised, which counts as no proof."""
    _logger.error(
        "oncekey: the not_executed predicate of %s raised %s: nothing is proven by it",
        operation,
        type(error).__name__,
        extra={"oncekey_event": "rule-failed", "operation": operation},
    )
