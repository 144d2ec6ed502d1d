"""A dashboard of what the alarms watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsii
from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from constructs import Construct

_WIDTH = 24
_ALARMS_HEIGHT, _GRAPH_HEIGHT = 3, 6
# The titles of the graphs that stand in one row.
_ROWS = (
    ("Requests", "Refusals and failures"),
    ("Handlers (ms)", "Added by the layer (ms)", "Time used (%)"),
    ("Unknown operations", "Oldest unknown (s)", "Reconciler"),
    ("Messages", "Age of messages (s)", "Queues that people read"),
    ("Function errors", "Function throttles"),
    ("Table throttles", "Pruned a day"),
    ("API 5xx", "API 4xx and 429", "API refusals by route"),
)
# The layer's metrics in the graphs: their statistic and their names.
SERVICE_GRAPHS = {
    "Requests": ("Sum", ("Reserved", "Replayed", "FailedRetried")),
    "Refusals and failures": (
        "Sum",
        (
            "InProgress",
            "KeyReused",
            "OutcomeUnknown",
            "StoreErrors",
            "LeaseExpired",
            "QuotaExceeded",
            "Paused",
        ),
    ),
    "Handlers (ms)": ("p99", ("HandlerDuration",)),
    "Added by the layer (ms)": ("p99", ("LayerDuration",)),
    "Time used (%)": ("p99", ("LeaseUsed",)),
    "Messages": (
        "Sum",
        ("MessagesSent", "MessagesFailed", "MessagesSetAside", "MessagesResent"),
    ),
}
RECONCILER_GRAPHS = {
    "Unknown operations": ("Maximum", ("UnknownRecords",)),
    "Oldest unknown (s)": ("Maximum", ("OldestUnknownAge",)),
    "Reconciler": ("Sum", ("ReconcilerRuns", "Visited", "Settled", "VisitsFailed", "Escalated")),
    "Age of messages (s)": ("Maximum", ("OutboxAge",)),
}


class ServiceDashboard:
    """Graphs in rows. A row is there once something is plotted in it.

    CloudFormation names the dashboard after the stack, so several stacks have one each.
    """

    def __init__(self, scope: Construct, alarms: Mapping[str, cloudwatch.Alarm]) -> None:
        self.dashboard = cloudwatch.Dashboard(
            scope, "Dashboard", default_interval=Duration.hours(3)
        )
        self.dashboard.add_widgets(_AlarmStates(scope, alarms))
        self._graphs: dict[str, cloudwatch.GraphWidget] = {}

    def plot(self, title: str, *metrics: cloudwatch.IMetric) -> None:
        """Add metrics to the graph with this title."""
        if title not in self._graphs:
            (row,) = [titles for titles in _ROWS if title in titles]
            for each in row:
                self._graphs[each] = cloudwatch.GraphWidget(
                    title=each, width=_WIDTH // len(row), height=_GRAPH_HEIGHT
                )
            self.dashboard.add_widgets(*(self._graphs[each] for each in row))
        for metric in metrics:
            self._graphs[title].add_left_metric(metric)


@jsii.implements(cloudwatch.IWidget)
class _AlarmStates:
    """The states of all alarms, also of those that are added later.

    The CDK's own widget takes a list that is complete.
    """

    def __init__(self, scope: Construct, alarms: Mapping[str, cloudwatch.Alarm]) -> None:
        self._scope, self._alarms = scope, alarms
        self._x, self._y = 0, 0

    @property
    def height(self) -> int:
        return _ALARMS_HEIGHT

    @property
    def width(self) -> int:
        return _WIDTH

    @property
    def warnings(self) -> None:
        return None

    @property
    def warnings_v2(self) -> None:
        return None

    def position(self, x: float, y: float) -> None:
        self._x, self._y = round(x), round(y)

    def to_json(self) -> list[Any]:
        # CloudWatch shows at most a hundred.
        shown = [alarm.alarm_arn for alarm in self._alarms.values()][:100]
        return [
            {
                "type": "alarm",
                "width": _WIDTH,
                "height": _ALARMS_HEIGHT,
                "x": self._x,
                "y": self._y,
                "properties": {"title": "Alarms", "alarms": shown},
            }
        ]
