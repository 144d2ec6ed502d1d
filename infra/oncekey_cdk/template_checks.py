"""What must be true of the finished templates, after all overrides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from oncekey_operator.template_reading import (
    Resource,
    Template,
    Templates,
    listed,
    mapping,
    number,
    texts,
)

from .checks import (
    ANSWERS,
    API_TIMEOUT_S,
    FUNCTION_TIMEOUT_S,
    MESSAGES_KEPT_S,
    RESULTS,
    VISIBILITY_TIMEOUT_S,
    api_faults,
    bucket_faults,
    lease_faults,
    peoples_queue_faults,
    source_faults,
    visibility_faults,
)
from .wiring_checks import WIRING_RULES, wiring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Check = Callable[[Templates, Resource], Iterator[tuple[str, str]]]

# The metadata key of an event source whose batches are meant to be repeated as a whole.
WHOLE_BATCHES = "oncekey:whole-batches"
RULES = (
    "VisibilityTimeout",
    "PartialBatchAnswers",
    "EventSource",
    "Lease",
    "AnswersKept",
    "ApiTimeout",
    "PeoplesQueue",
    *WIRING_RULES,
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault: its template, its resource, and which of `RULES` it breaks."""

    template: str
    logical_id: str
    rule: str
    fault: str

    def __str__(self) -> str:
        stack = PurePath(self.template).name.removesuffix(".template.json")
        return f"{stack}/{self.logical_id}: {self.fault}"


def findings(
    templates: Mapping[str, Template], places: Mapping[str, object] | None = None
) -> Iterator[Finding]:
    """All faults of these templates, which may refer to each other.

    Values that only the deployment knows (`Ref` of a parameter, `Fn::If`) count as right.

    Args:
        templates: The templates by the names of their stacks, or by their paths.
        places: Where each goes, such as account and Region, if stacks have the same names in two
            places.
    """
    app = Templates(templates, places or {})
    checks: dict[str, Check] = {
        "AWS::Lambda::EventSourceMapping": _of_event_source,
        "AWS::Lambda::Function": _of_function,
        "AWS::ApiGatewayV2::Integration": _of_http_integration,
        "AWS::ApiGateway::Method": _of_rest_method,
        "AWS::SQS::Queue": _of_queue,
    }
    for resource in app.resources:
        check = checks.get(resource.kind)
        for rule, fault in check(app, resource) if check else ():
            yield _finding(resource, rule, fault)
    for resource, rule, fault in wiring(app):
        yield _finding(resource, rule, fault)


def _finding(resource: Resource, rule: str, fault: str) -> Finding:
    return Finding(
        template=resource.template_name, logical_id=resource.name, rule=rule, fault=fault
    )


def _of_event_source(app: Templates, source: Resource) -> Iterator[tuple[str, str]]:
    properties = source.properties
    given = properties.get("FunctionResponseTypes", [])
    is_known = isinstance(given, list) and len(texts(given)) == len(given)
    if is_known and "ReportBatchItemFailures" not in given and WHOLE_BATCHES not in source.metadata:
        yield (
            "PartialBatchAnswers",
            "one failed record repeats its whole batch: add ReportBatchItemFailures",
        )
    queue = app.referred(source, properties.get("EventSourceArn"))
    is_queue = queue is not None and queue.kind == "AWS::SQS::Queue"
    window_s = number(properties.get("MaximumBatchingWindowInSeconds"), 0)
    scaling = mapping(properties.get("ScalingConfig"))
    for fault in source_faults(
        batch_size=number(properties.get("BatchSize")),
        window_s=window_s,
        max_concurrency=number(scaling.get("MaximumConcurrency")),
        is_queue=is_queue,
        is_fifo=is_queue and queue is not None and queue.properties.get("FifoQueue") is True,
    ):
        yield "EventSource", fault
    function = app.referred(source, properties.get("FunctionName"))
    if queue is None or function is None or not is_queue:
        return
    visible_s = number(queue.properties.get("VisibilityTimeout"), VISIBILITY_TIMEOUT_S)
    timeout_s = _timeout_s(function)
    if visible_s is not None and timeout_s is not None and window_s is not None:
        for fault in visibility_faults(visible_s=visible_s, timeout_s=timeout_s, window_s=window_s):
            yield "VisibilityTimeout", fault


def _of_function(app: Templates, function: Resource) -> Iterator[tuple[str, str]]:
    variables = function.variables
    if "ONCEKEY_TABLE" not in variables:
        return
    # A value that only the deployment knows counts as the default.
    known = {name: value if isinstance(value, str) else "" for name, value in variables.items()}
    timeout_s = _timeout_s(function)
    if timeout_s is not None:
        for fault in lease_faults(timeout_s=timeout_s, environment=known):
            yield "Lease", fault
    bucket = app.referred(function, variables.get("ONCEKEY_RESPONSE_BUCKET"))
    if bucket is not None:
        for fault in bucket_faults(environment=known, answers_days=_days(bucket, ANSWERS)):
            yield "AnswersKept", fault
        if _days(bucket, RESULTS) is not None:
            yield (
                "AnswersKept",
                (
                    f"the bucket {bucket.name} removes step results ({RESULTS}), which are the only"
                    " evidence of a charge: give its lifecycle rules a prefix"
                ),
            )


def _of_http_integration(app: Templates, integration: Resource) -> Iterator[tuple[str, str]]:
    function = app.referred(integration, integration.properties.get("IntegrationUri"))
    if function is None or function.kind != "AWS::Lambda::Function":
        return
    timeout_s = _timeout_s(function)
    if timeout_s is not None:
        for fault in api_faults(timeout_s=timeout_s):
            yield "ApiTimeout", f"{function.name}: {fault}"


def _of_rest_method(app: Templates, method: Resource) -> Iterator[tuple[str, str]]:
    integration = mapping(method.properties.get("Integration"))
    most_ms = number(integration.get("TimeoutInMillis"), API_TIMEOUT_S * 1000)
    for function in app.mentioned(method, integration.get("Uri")):
        if function.kind != "AWS::Lambda::Function" or most_ms is None:
            continue
        timeout_s = _timeout_s(function)
        if timeout_s is not None:
            for fault in api_faults(timeout_s=timeout_s, most_s=most_ms // 1000):
                yield "ApiTimeout", f"{function.name}: {fault}"


def _of_queue(app: Templates, queue: Resource) -> Iterator[tuple[str, str]]:
    kept_s = number(queue.properties.get("MessageRetentionPeriod"), MESSAGES_KEPT_S)
    if kept_s is not None and _waits_for_people(app, queue):
        for fault in peoples_queue_faults(kept_s=kept_s):
            yield "PeoplesQueue", fault


def _waits_for_people(app: Templates, queue: Resource) -> bool:
    """Whether `queue` gets failures, or operations that only a person can settle."""
    return any(
        app.referred(user, reference) == queue
        for user in app.resources
        for reference in _told_by(user)
    )


def _told_by(user: Resource) -> Iterator[Any]:
    properties = user.properties
    match user.kind:
        case "AWS::SQS::Queue":
            yield mapping(properties.get("RedrivePolicy")).get("deadLetterTargetArn")
        case "AWS::Lambda::EventSourceMapping" | "AWS::Lambda::EventInvokeConfig":
            destinations = mapping(properties.get("DestinationConfig"))
            yield mapping(destinations.get("OnFailure")).get("Destination")
        case "AWS::Lambda::Function":
            yield mapping(properties.get("DeadLetterConfig")).get("TargetArn")
            yield user.variables.get("ONCEKEY_ESCALATION_QUEUE_URL")
        case "AWS::Events::Rule":
            for target in listed(properties.get("Targets")):
                yield mapping(mapping(target).get("DeadLetterConfig")).get("Arn")
        case _:
            return


def _timeout_s(function: Resource) -> int | None:
    return number(function.properties.get("Timeout"), FUNCTION_TIMEOUT_S)


def _days(bucket: Resource, key: str) -> int | None:
    """The days after which objects under `key` are removed; None for never."""
    rules = listed(mapping(bucket.properties.get("LifecycleConfiguration")).get("Rules"))
    days = [
        number(rule.get("ExpirationInDays"))
        for rule in map(mapping, rules)
        if rule.get("Status", "Enabled") == "Enabled"
        and isinstance(prefix := rule.get("Prefix", ""), str)
        and key.startswith(prefix)
        # A rule for objects of one size or tag does not apply to all of them.
        and not {*rule} & {"TagFilters", "ObjectSizeGreaterThan", "ObjectSizeLessThan"}
    ]
    return min((one for one in days if one is not None), default=None)
