"""What CloudWatch would say of an alarm, from the metrics that a run emitted.

It reads the properties of `AWS::CloudWatch::Alarm` and lines in the embedded metric format. Of
metric math it knows what the alarms here use: arithmetic, comparisons, IF and SUM.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
"""

from __future__ import annotations

import ast
import json
import operator
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Properties = dict[str, Any]
Points = dict[int, float]
_Key = tuple[str, str, str]
_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "SampleCount": lambda values: float(len(values)),
    "p99": lambda values: sorted(values)[min(len(values) - 1, int(0.99 * len(values)))],
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
}
_OPERATORS: dict[type, Callable[[float, float], Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Metrics:
    """Data points of metrics, by namespace, name and dimensions."""

    def __init__(self) -> None:
        self._points: dict[_Key, list[tuple[int, float]]] = defaultdict(list)

    def put(
        self, namespace: str, name: str, dimensions: Mapping[str, object], at_s: int, value: float
    ) -> None:
        """Add one data point."""
        self._points[_key(namespace, name, dimensions)].append((at_s, value))

    def read(self, output: str) -> None:
        """Add what the lines of a function's output say in the embedded metric format."""
        for line in output.splitlines():
            if '"_aws"' not in line:
                continue
            emitted = json.loads(line)
            at_s = emitted["_aws"]["Timestamp"] // 1000
            for directive in emitted["_aws"]["CloudWatchMetrics"]:
                for dimensions in directive["Dimensions"]:
                    named = {each: emitted[each] for each in dimensions}
                    for metric in directive["Metrics"]:
                        found = emitted[metric["Name"]]
                        for value in found if isinstance(found, list) else [found]:
                            self.put(directive["Namespace"], metric["Name"], named, at_s, value)

    def statistic(self, metric: Properties, period: int, statistic: str) -> Points:
        """The value of each period that has data, by the period's begin."""
        dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions", [])}
        periods: dict[int, list[float]] = defaultdict(list)
        key = _key(metric["Namespace"], metric["MetricName"], dimensions)
        for at_s, value in self._points[key]:
            periods[at_s - at_s % period].append(value)
        return {begin: _STATISTICS[statistic](values) for begin, values in periods.items()}


def is_on(alarm: Properties, metrics: Metrics, *, now_s: int) -> bool:
    """Whether the alarm is on after the period that `now_s` is in.

    An alarm whose periods have no data at all, and that ignores that, is off as it began.
    """
    points, period = _series(alarm, metrics)
    last = now_s - now_s % period
    count = alarm["EvaluationPeriods"]
    values = [points.get(last - each * period) for each in range(count)]
    missing = {"breaching": True, "notBreaching": False, "ignore": False}[alarm["TreatMissingData"]]
    compare = _COMPARISONS[alarm["ComparisonOperator"]]
    return all(missing if value is None else compare(value, alarm["Threshold"]) for value in values)


def _series(alarm: Properties, metrics: Metrics) -> tuple[Points, int]:
    if "Metrics" not in alarm:
        period = alarm["Period"]
        statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
        return metrics.statistic(alarm, period, statistic), period
    known: dict[str, Points] = {}
    expression, period = "", 0
    for query in alarm["Metrics"]:
        if "Expression" in query:
            expression = query["Expression"]
            continue
        told = query["MetricStat"]
        period = told["Period"]
        known[query["Id"]] = metrics.statistic(told["Metric"], period, told["Stat"])
    tree = ast.parse(expression, mode="eval").body
    times = {at for points in known.values() for at in points}
    found = {}
    for at in times:
        value = _value(tree, {name: points.get(at) for name, points in known.items()})
        if value is not None:
            found[at] = float(value)
    return found, period


def _value(node: ast.expr, known: Mapping[str, float | None]) -> float | None:
    """An expression's value at one time; None if it has no data then."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _applied(op, _value(left, known), _value(right, known))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _applied(op, _value(left, known), _value(right, known))
        case ast.Call(func=ast.Name(id="IF"), args=[test, then, otherwise]):
            decided = _value(test, known)
            return None if decided is None else _value(then if decided else otherwise, known)
        case ast.Call(func=ast.Name(id="SUM"), args=[ast.List(elts=parts)]):
            return _sum(_value(part, known) for part in parts)
    raise ValueError(f"not known here: {ast.unparse(node)}")


def _applied(op: ast.AST, left: float | None, right: float | None) -> float | None:
    if left is None or right is None or (isinstance(op, ast.Div) and right == 0):
        return None
    return float(_OPERATORS[type(op)](left, right))


def _sum(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def _key(namespace: str, name: str, dimensions: Mapping[str, object]) -> _Key:
    return namespace, name, json.dumps(dimensions, sort_keys=True)
