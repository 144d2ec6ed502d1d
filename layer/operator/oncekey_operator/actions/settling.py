"""Settling operations by what a person found out, through the layer's own settlement."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from oncekey.errors import NotExecuted, StoreError
from oncekey.flow.driver import drive
from oncekey.record.policy import Encoding
from oncekey.record.record import Status
from oncekey.record.references import reference_to
from oncekey.settings import Settings
from oncekey.settlement.late import settle_named
from oncekey.settlement.resolvers import Completed
from oncekey.settlement.settlement import Settlement, Settler
from oncekey_operator.actions.given_answers import check_sendable
from oncekey_operator.exits import CommandError, UsageError
from oncekey_operator.records.outlook import why_not_ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.flow.commands import Flow
    from oncekey.record.record import Record
    from oncekey_operator.actions.acting import Acting

_SENTENCES = {
    Settlement.SETTLED: "settled",
    Settlement.RUNNING: "its own attempt may still end it: try again later",
    Settlement.TOO_EARLY: (
        "a call of the dead attempt may still arrive: look at the provider again after the grace,"
        " one minute after the lease by default, and then say --not-executed"
    ),
    Settlement.NOT_IN_DOUBT: "nothing is in doubt, or the next attempt goes on anyway",
    Settlement.OVERTAKEN: (
        "somebody else has settled it in the meantime, or another attempt has begun: look at it"
        " again"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of settling one operation."""

    reference: str
    operation_id: str
    settlement: Settlement

    @property
    def is_done(self) -> bool:
        """Whether this call settled it."""
        return self.settlement is Settlement.SETTLED

    def __str__(self) -> str:
        """The result as a sentence."""
        return _SENTENCES.get(self.settlement, self.settlement.value)


def settle(
    acting: Acting,
    record: Record,
    finding: Completed | NotExecuted,
    *,
    step: str = "",
    found_at_ms: int | None = None,
) -> Settled:
    """Settle `record` as `oncekey.settle` does, with its lines in the audit table.

    "Not executed" is about the attempt of this `record`, and settles no later one. It was found out
    at `found_at_ms` at the latest, by default now.

    Raises:
        CommandError: the first audit line was not written, and nothing was settled.
        StoreError: it may or may not have been settled. Settle it again: an operation that was
            settled is not settled twice.
        UsageError: the answer or result cannot be stored. Nothing was written.
        ValueError: `step` does not name the step in doubt. Nothing was written.
    """
    settler = _settler(acting)
    is_of_step = settler.is_of_step(record, step)
    if isinstance(finding, Completed) and not is_of_step:
        finding = _in_text(record, finding)
    _check(record, lambda: settler.check_storable(record, finding, step=step))
    if not is_of_step:
        _check(record, lambda: _check_sendable(record, finding))
    what = "completed" if isinstance(finding, Completed) else "not executed"
    flow = partial(
        settle_named,
        record.pk,
        record.operation_id,
        finding,
        step=step,
        attempt=record.attempt,
        found_at_ms=found_at_ms,
        settler=settler,
    )
    return _done(acting, record, f"resolve: {what}{f', step {step}' if step else ''}", flow)


def end(acting: Acting, record: Record, answer: Completed) -> Settled:
    """End an operation that will not go on with `answer`, with its lines in the audit table.

    No handler runs for it again. What its finished steps did stays done.

    Raises:
        CommandError: its state does not permit it, or the first audit line was not written.
        StoreError: it may or may not have been ended. End it again.
        UsageError: the answer cannot be stored. Nothing was written.
    """
    if why_not := why_not_ended(record, acting.clock.now_ms()):
        raise CommandError(why_not)
    settler, answer = _settler(acting), _in_text(record, answer)
    _check(record, lambda: settler.check_answer(record, answer))
    _check(record, lambda: _check_sendable(record, answer))
    return _done(acting, record, "resolve: end", partial(settler.end, record, answer))


def _settler(acting: Acting) -> Settler:
    return Settler(
        clock=acting.clock,
        settings=Settings(),
        call_timeout_ms=acting.store.call_timeout_ms,
        has_bucket=acting.store.has_bucket,
    )


def _check(record: Record, check: Callable[[], None]) -> None:
    """Raise what is wrong with an answer for a person who writes JSON, and no Python."""
    try:
        check()
    except TypeError as error:
        wrong = str(error.__cause__ or error).removeprefix("oncekey: ")
        raise UsageError(
            f"{record.operation} answers HTTP requests. Its answer is a JSON object with statusCode"
            ", body (a text, or JSON, which is sent as a text) and, if needed, headers: "
            + wrong.replace("the handler's answer", "this one")
        ) from error


def _done(
    acting: Acting, record: Record, action: str, flow: Callable[[], Flow[Settlement]]
) -> Settled:
    intention = acting.audit.intend(
        action, pk=record.pk, operation_id=record.operation_id, before=record.status.value
    )
    try:
        settlement = drive(flow(), store=acting.store, clock=acting.clock)
    except (StoreError, TypeError, ValueError) as error:
        intention.end(f"failed: {type(error).__name__}")
        raise
    intention.end(settlement.value, after=_state_after(acting, record))
    return Settled(
        reference=reference_to(record), operation_id=record.operation_id, settlement=settlement
    )


def _in_text(record: Record, finding: Completed) -> Completed:
    """The finding with an HTTP body that is a text.

    A person who writes an answer as JSON writes its body as JSON, too: an object within the object.
    A body that is a text already is sent as it is.

    Raises:
        UsageError: the body has a number that JSON does not have: Python reads 1e400 as infinity.
    """
    answer = finding.result
    if not (_is_http(record) and isinstance(answer, dict)):
        return finding
    if isinstance(answer.get("body", ""), str | None):
        return finding
    try:
        text = json.dumps(answer["body"], ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "the body has a number that is too large for JSON, or is nested too deep"
        ) from error
    return Completed({**answer, "body": text})


def _check_sendable(record: Record, finding: Completed | NotExecuted) -> None:
    # Nothing is written to a record that has its answer.
    if record.status is Status.COMPLETED or not _is_http(record):
        return
    if isinstance(finding, Completed):
        check_sendable(finding.result)


def _is_http(record: Record) -> bool:
    return record.policy is not None and record.policy.encoding is Encoding.HTTP


def _state_after(acting: Acting, record: Record) -> str:
    try:
        after = acting.store.read(record.pk)
    except StoreError:
        return "not read"  # what was done is known, and must be told
    return "absent" if after is None else after.status.value
