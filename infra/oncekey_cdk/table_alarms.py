"""The alarms of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Annotations, Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from oncekey.store.dynamodb.schema import DUE_INDEX

from .alarm_set import MINUTE, PERIODS
from .idempotency_table import IdempotencyTable

if TYPE_CHECKING:
    from constructs import Construct

    from .alarm_set import AlarmSet
    from .safe_table import SafeTable

_DAY, _WEEK = Duration.days(1), 7
# On a day with fewer writes there may be nothing to delete.
_USED = 1000


def throttles(table: SafeTable) -> cloudwatch.IMetric:
    """The writes that a table refused because there were too many."""
    return table.table.metric("WriteThrottleEvents", period=MINUTE, statistic="Sum")


def pruned(table: SafeTable, *, period: Duration = _DAY) -> cloudwatch.IMetric:
    """The items that DynamoDB deleted because their time was up."""
    return table.table.metric("TimeToLiveDeletedItemCount", period=period, statistic="Sum")


def warned_of_another_account(scope: Construct, table: SafeTable) -> bool:
    """Whether `table` is in another account, and so are its metrics. The CDK then says so."""
    if not table.is_of_another_account(scope):
        return False
    Annotations.of(scope).add_warning_v2(
        "oncekey:TableOfAnotherAccount",
        f"the table {table.node.path!r} is in another account, and so are its metrics: let an"
        " Observability of a stack there watch it",
    )
    return True


def add_table_alarms(alarms: AlarmSet, table: SafeTable, name: str) -> None:
    """Add the alarms for throttled writes and, for a table of records, for one that only grows."""
    alarms.add(
        table,
        name,
        "Throttles",
        throttles(table),
        section="TableThrottles",
        periods=PERIODS,
        advice=(
            f"Table {name} throttles writes. One key gets too many requests, or the traffic is"
            " more than twice its earlier peak. Slow the client down, or pre-warm the table."
        ),
    )
    if not isinstance(table, IdempotencyTable):
        return
    if table.has_due_index:
        alarms.add(
            table,
            name,
            "IndexThrottles",
            cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name="WriteThrottleEvents",
                dimensions_map={
                    "TableName": table.table.table_name,
                    "GlobalSecondaryIndexName": DUE_INDEX,
                },
                period=MINUTE,
                statistic="Sum",
            ),
            periods=PERIODS,
            advice=(
                f"The index {DUE_INDEX} of table {name} throttles, and so refuses writes of the"
                " table. One of its partitions is too hot: raise ONCEKEY_DUE_SHARDS, which new"
                " records then use."
            ),
        )
    written = table.table.metric("ConsumedWriteCapacityUnits", period=_DAY, statistic="Sum")
    alarms.add(
        table,
        name,
        "NotPruned",
        cloudwatch.MathExpression(
            # On a day without deletions their metric may have no data. SUM ignores that.
            expression=f"IF(written > {_USED}, SUM([pruned, written * 0]), 1)",
            using_metrics={"written": written, "pruned": pruned(table)},
            period=_DAY,
            label="NotPruned",
        ),
        threshold=1,
        periods=_WEEK,
        comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        advice=(
            f"Table {name} is used, and for a week DynamoDB has deleted nothing from it, so it"
            " grows for ever. Check that TTL is enabled for expires_at. If answers are kept for"
            " longer than a few days, this also happens once after the first deployment."
        ),
    )
