"""The alarms of an API, and its refusals by route."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from aws_cdk import Duration, Names
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs

from .alarm_set import FAILURE_PERIOD, PERIODS
from .metrics import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .alarm_set import AlarmSet
    from .http_api import IdempotentHttpApi
    from .rest_api import IdempotentRestApi

_QUARTER = Duration.minutes(15)
# Of all requests, in percent. A few clients with faults are usual.
_MANY_REFUSED = 25
# Of fewer requests, a few refused ones are a large part.
_ENOUGH = 50


@dataclass(frozen=True, kw_only=True)
class ApiMetrics:
    """The metrics of an API that the dashboard shows."""

    server_errors: cloudwatch.IMetric
    client_errors: cloudwatch.IMetric
    # By the access log. None for an API with another log than that of its construct.
    too_many: cloudwatch.IMetric | None = None
    # A search: one line for each route and status that was refused.
    refused_by_route: cloudwatch.IMetric | None = None


def add_api_alarms(alarms: AlarmSet, api: IdempotentHttpApi | IdempotentRestApi) -> ApiMetrics:
    """Add the alarms for 5xx, many 4xx, and 429. That for 5xx stops gradual deployments."""
    name, metrics = api.node.id, _metrics(api)
    failures = alarms.add(
        api,
        name,
        "Failures",
        metrics.server_errors,
        advice=(
            f"{name} answers 5xx. The access log names the route. 503 means that the store does"
            " not answer, or that a function is too slow; 500 and 502 come from the handler."
        ),
    )
    for function in api.functions:
        if function.rollout:
            function.rollout.stop_on(failures)
    alarms.add(
        api,
        name,
        "ClientErrors",
        cloudwatch.MathExpression(
            expression=f"IF(requests >= {_ENOUGH}, 100 * refused / requests, 0)",
            using_metrics={
                "refused": metrics.client_errors,
                "requests": api.api.metric_count(period=_QUARTER, statistic="SampleCount"),
            },
            period=_QUARTER,
            label="ClientErrors",
        ),
        threshold=_MANY_REFUSED,
        advice=(
            f"{name} refuses more than {_MANY_REFUSED}% of the requests (4xx). The dashboard names"
            " the route and the status. Find out which client sends them, and whether the last"
            " deployment changed what is accepted."
        ),
    )
    if metrics.too_many is None:
        return metrics
    alarms.add(
        api,
        name,
        "TooManyRequests",
        metrics.too_many,
        periods=PERIODS,
        advice=(
            f"{name} answers 429, minute after minute. A tenant is above its quota, or all callers"
            " together are above the API's throttle. Find out who, then slow the client down or"
            " raise the limit."
        ),
    )
    return metrics


def _metrics(api: IdempotentHttpApi | IdempotentRestApi) -> ApiMetrics:
    errors: Mapping[str, cloudwatch.IMetric] = {
        "server_errors": api.api.metric_server_error(period=FAILURE_PERIOD, statistic="Sum"),
        "client_errors": api.api.metric_client_error(period=_QUARTER, statistic="Sum"),
    }
    log = api.access_log
    if log is None:
        return ApiMetrics(**errors)
    # CloudWatch has these names in the whole account.
    unique = Names.unique_resource_name(api, max_length=200)
    by_route = f"Refused-{unique}"
    _count(api, log, "RefusedByRoute", by_route, status="4*", by=("route", "status"))
    too_many = _count(api, log, "TooManyRequests", f"TooManyRequests-{unique}", status="429")
    search = f'{{{NAMESPACE},route,status}} MetricName="{by_route}"'
    return ApiMetrics(
        **errors,
        too_many=too_many.metric(period=FAILURE_PERIOD, statistic="Sum"),
        refused_by_route=cloudwatch.MathExpression(
            expression=f"SEARCH('{search}', 'Sum', 300)",
            using_metrics={},
            label="",
            period=FAILURE_PERIOD,
        ),
    )


def _count(
    api: IdempotentHttpApi | IdempotentRestApi,
    log: logs.ILogGroup,
    construct_id: str,
    metric: str,
    *,
    status: str,
    by: Sequence[str] = (),
) -> logs.MetricFilter:
    """Count the answers of this status by fields of the access log.

    The API has the count once, for every `Observability` that watches it.
    """
    counted = api.node.try_find_child(construct_id)
    if counted is not None:
        return cast("logs.MetricFilter", counted)
    return logs.MetricFilter(
        api,
        construct_id,
        log_group=log,
        filter_pattern=logs.FilterPattern.literal(f'{{ $.status = "{status}" }}'),
        metric_namespace=NAMESPACE,
        metric_name=metric,
        dimensions={field: f"$.{field}" for field in by} or None,
    )
