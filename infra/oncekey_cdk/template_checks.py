"""What must be true of the finished templates, whoever has overridden what on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from .checks import (
    API_TIMEOUT_S,
    FUNCTION_TIMEOUT_S,
    MESSAGES_KEPT_S,
    VISIBILITY_TIMEOUT_S,
    api_faults,
    bucket_faults,
    lease_faults,
    peoples_queue_faults,
    visibility_faults,
)
from .response_bucket import ANSWERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Template = dict[str, Any]

# On an event source whose function has a batch done again as a whole, and says so.
WHOLE_BATCHES = "oncekey:whole-batches"
RULES = (
    "VisibilityTimeout",
    "PartialBatchAnswers",
    "Lease",
    "AnswersKept",
    "ApiTimeout",
    "PeoplesQueue",
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong: in which template, with which resource, by which of `RULES`."""

    template: str
    logical_id: str
    rule: str
    fault: str

    def __str__(self) -> str:
        stack = PurePath(self.template).name.removesuffix(".template.json")
        return f"{stack}/{self.logical_id}: {self.fault}"


@dataclass(frozen=True)
class _Resource:
    template: Template
    name: str

    @property
    def kind(self) -> str:
        return str(self.template["Resources"][self.name]["Type"])

    @property
    def properties(self) -> Template:
        properties: Template = self.template["Resources"][self.name].get("Properties", {})
        return properties

    @property
    def metadata(self) -> Template:
        metadata: Template = self.template["Resources"][self.name].get("Metadata", {})
        return metadata


def findings(templates: Mapping[str, Template]) -> Iterator[Finding]:
    """Everything that is wrong with these templates, which may refer to each other.

    Args:
        templates: The templates by the names of their stacks, or by their paths.
    """
    rules = {
        "AWS::Lambda::EventSourceMapping": _of_event_source,
        "AWS::Lambda::Function": _of_function,
        "AWS::ApiGatewayV2::Integration": _of_http_integration,
        "AWS::ApiGateway::Method": _of_rest_method,
        "AWS::SQS::Queue": _of_queue,
    }
    for name, template in templates.items():
        for logical_id, resource in template.get("Resources", {}).items():
            if resource["Type"] in rules:
                check = rules[resource["Type"]]
                for rule, fault in check(templates, _Resource(template, logical_id)):
                    yield Finding(template=name, logical_id=logical_id, rule=rule, fault=fault)


def _of_event_source(
    templates: Mapping[str, Template], mapping: _Resource
) -> Iterator[tuple[str, str]]:
    given = mapping.properties.get("FunctionResponseTypes", [])
    if "ReportBatchItemFailures" not in given and WHOLE_BATCHES not in mapping.metadata:
        yield (
            "PartialBatchAnswers",
            "one failed record has its whole batch done again; add ReportBatchItemFailures",
        )
    source = _referred(templates, mapping, mapping.properties.get("EventSourceArn"))
    function = _referred(templates, mapping, mapping.properties["FunctionName"])
    if source is None or function is None or source.kind != "AWS::SQS::Queue":
        return
    for fault in visibility_faults(
        visible_s=int(source.properties.get("VisibilityTimeout", VISIBILITY_TIMEOUT_S)),
        timeout_s=_timeout_s(function),
        window_s=int(mapping.properties.get("MaximumBatchingWindowInSeconds", 0)),
    ):
        yield "VisibilityTimeout", fault


def _of_function(
    templates: Mapping[str, Template], function: _Resource
) -> Iterator[tuple[str, str]]:
    variables = function.properties.get("Environment", {}).get("Variables", {})
    if "ONCEKEY_TABLE" not in variables:
        return
    # What only the deployment knows counts as the default.
    known = {name: value if isinstance(value, str) else "" for name, value in variables.items()}
    for fault in lease_faults(timeout_s=_timeout_s(function), environment=known):
        yield "Lease", fault
    bucket = _referred(templates, function, variables.get("ONCEKEY_RESPONSE_BUCKET"))
    if bucket is not None:
        for fault in bucket_faults(environment=known, answers_days=_answers_days(bucket)):
            yield "AnswersKept", fault


def _of_http_integration(
    templates: Mapping[str, Template], integration: _Resource
) -> Iterator[tuple[str, str]]:
    function = _referred(templates, integration, integration.properties.get("IntegrationUri"))
    if function is not None and function.kind == "AWS::Lambda::Function":
        for fault in api_faults(timeout_s=_timeout_s(function)):
            yield "ApiTimeout", f"{function.name}: {fault}"


def _of_rest_method(
    templates: Mapping[str, Template], method: _Resource
) -> Iterator[tuple[str, str]]:
    integration = method.properties.get("Integration", {})
    parts = integration.get("Uri", {})
    for part in parts.get("Fn::Join", ["", []])[1] if isinstance(parts, dict) else []:
        function = _referred(templates, method, part)
        if function is not None and function.kind == "AWS::Lambda::Function":
            most_s = int(integration.get("TimeoutInMillis", API_TIMEOUT_S * 1000)) // 1000
            for fault in api_faults(timeout_s=_timeout_s(function), most_s=most_s):
                yield "ApiTimeout", f"{function.name}: {fault}"


def _of_queue(templates: Mapping[str, Template], queue: _Resource) -> Iterator[tuple[str, str]]:
    kept_s = queue.properties.get("MessageRetentionPeriod", MESSAGES_KEPT_S)
    if isinstance(kept_s, int | str) and _waits_for_people(templates, queue):
        for fault in peoples_queue_faults(kept_s=int(kept_s)):
            yield "PeoplesQueue", fault


def _waits_for_people(templates: Mapping[str, Template], queue: _Resource) -> bool:
    """Whether `queue` is told of what has failed, or of what nobody but a person can settle."""
    return any(
        _referred(templates, user, reference) == queue
        for template in templates.values()
        for name in template.get("Resources", {})
        for user in [_Resource(template, name)]
        for reference in _told_by(user)
    )


def _told_by(user: _Resource) -> Iterator[Any]:
    properties = user.properties
    match user.kind:
        case "AWS::SQS::Queue":
            yield properties.get("RedrivePolicy", {}).get("deadLetterTargetArn")
        case "AWS::Lambda::EventSourceMapping" | "AWS::Lambda::EventInvokeConfig":
            destinations = properties.get("DestinationConfig", {})
            yield destinations.get("OnFailure", {}).get("Destination")
        case "AWS::Lambda::Function":
            yield properties.get("DeadLetterConfig", {}).get("TargetArn")
            variables = properties.get("Environment", {}).get("Variables", {})
            yield variables.get("ONCEKEY_ESCALATION_QUEUE_URL")
        case "AWS::Events::Rule":
            for target in properties.get("Targets", []):
                yield target.get("DeadLetterConfig", {}).get("Arn")
        case _:
            return


def _timeout_s(function: _Resource) -> int:
    return int(function.properties.get("Timeout", FUNCTION_TIMEOUT_S))


def _answers_days(bucket: _Resource) -> int | None:
    rules = bucket.properties.get("LifecycleConfiguration", {}).get("Rules", [])
    days = [
        int(rule["ExpirationInDays"])
        for rule in rules
        if "ExpirationInDays" in rule and ANSWERS.startswith(rule.get("Prefix", ""))
    ]
    return min(days, default=None)


def _referred(
    templates: Mapping[str, Template], user: _Resource, reference: Any
) -> _Resource | None:
    """The resource that a property refers to, in whichever template; None if in none of them."""
    template = user.template
    if isinstance(reference, dict) and "Fn::ImportValue" in reference:
        exported = _exported(templates, reference["Fn::ImportValue"])
        if exported is None:
            return None
        template, reference = exported
    match reference:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            return _Resource(template, name) if name in template.get("Resources", {}) else None
        case _:
            return None


def _exported(templates: Mapping[str, Template], name: str) -> tuple[Template, Any] | None:
    found = (
        (template, output["Value"])
        for template in templates.values()
        for output in template.get("Outputs", {}).values()
        if output.get("Export", {}).get("Name") == name
    )
    return next(found, None)
