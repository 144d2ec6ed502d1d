"""The Lambda handler. A schedule runs it daily, or a person with `{"start": ..., "end": ...}`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from functions.ledger import logic
from functions.ledger.models import SETTLING_S, Outcome, Request, Window
from functions.ledger.report import brief, report
from functions.ledger.sources import PAYMENTS, REFUNDS
from functions.ledger.time_budget import TimeBudget
from functions.shared.settings import seconds
from oncekey import OncekeyError, natural
from oncekey.clock import SystemClock

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from functions.ledger.report import Report
    from functions.ledger.sources import Ledger

logger = Logger()
NAMESPACE = "oncekey"
# The log shows some findings; the report has all of them.
EXAMPLES_MAX = 10


class ComparisonIncomplete(Exception):  # noqa: N818 -- how a run ended
    """A ledger was not compared to its end, or its report was not stored."""


@natural("it compares and reports; a second run of a day finds the same")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, str]:
    """Compare both ledgers, and return the window and one line for each ledger.

    It returns only if both were compared to their ends and their reports were stored, whether or
    not they agree. Findings are in the log and in the metrics, which have an alarm.

    Raises:
        ComparisonIncomplete: see there. The findings until then are in the log and the bucket.
        ValidationError: the event names no window; nothing was read.
        NotConfigured: LEDGER_SETTLING_S is not a number of seconds; nothing was read.
    """
    settling_s = seconds("LEDGER_SETTLING_S", default=SETTLING_S)
    request = Request.model_validate(event)
    window = Window.of(request, now_ms=SystemClock().now_ms(), settling_s=settling_s)
    budget = TimeBudget(context)
    verdicts, failed = {"window": str(window)}, []
    for ledger in (PAYMENTS, REFUNDS):
        with report() as lines:
            outcome, examples = _compare(ledger, window, budget, lines)
            emit_metrics(outcome)
            is_kept = _keep(lines, outcome, examples)
        verdicts[ledger.name] = outcome.verdict
        if outcome.totals is None or not is_kept:
            failed.append(ledger.name)
    if failed:
        raise ComparisonIncomplete(", ".join(failed))
    return verdicts


def _compare(
    ledger: Ledger, window: Window, budget: TimeBudget, lines: Report
) -> tuple[Outcome, list[str]]:
    examples: list[str] = []
    try:
        with logic.compare(ledger, window, budget) as findings:
            for found in findings:
                lines.add(found)
                if len(examples) < EXAMPLES_MAX:
                    examples.append(brief(found))
            totals = findings.totals
    except Exception as error:  # noqa: BLE001 -- whatever it was, the other ledger is compared all the same
        # The text of a provider's or a model's error may repeat what was sent.
        failure = str(error) if isinstance(error, OncekeyError) else type(error).__name__
        return Outcome(ledger=ledger.name, window=window, totals=None, failure=failure), examples
    return Outcome(ledger=ledger.name, window=window, totals=totals), examples


def _keep(lines: Report, outcome: Outcome, examples: list[str]) -> bool:
    """Write the log line and the report. Returns whether the report was stored."""
    key, failure = "", ""
    try:
        key = lines.keep(outcome)
    except Exception as error:  # noqa: BLE001 -- it is told below, and the run fails
        failure = type(error).__name__
    is_well = outcome.totals is not None and not outcome.totals.differences and key
    (logger.info if is_well else logger.error)(
        f"ledger {outcome.ledger}: {outcome.verdict}",
        extra={
            "ledger": outcome.ledger,
            "window": str(outcome.window),
            "examples": examples,
            "report": key or f"not kept ({failure})",
        },
    )
    return bool(key)


def emit_metrics(outcome: Outcome) -> None:
    """Emit the metrics. A comparison that did not reach its end has no counts."""
    # As the layer's own metrics: the name is unique in the account.
    metrics = EphemeralMetrics(
        namespace=NAMESPACE, service=os.environ.get("ONCEKEY_METRICS_SERVICE")
    )
    metrics.add_dimension("ledger", outcome.ledger)
    totals = outcome.totals
    counts = {"LedgerIncomplete": int(totals is None)}
    if totals is not None:
        counts |= {
            "LedgerEqual": totals.equal,
            "LedgerDifferent": totals.different,
            "LedgerOnlyOurs": totals.only_ours,
            "LedgerOnlyTheirs": totals.only_theirs,
        }
    for name, count in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    metrics.flush_metrics()
