"""What reaches the functions of an app: routes, queues, streams, schedules, events."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from oncekey.http.methods import SAFE
from oncekey_operator.template_reading import Resource, Templates, listed, mapping, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_FUNCTION = "AWS::Lambda::Function"
# The CDK ends a logical id with eight digits of a hash.
_HASH = re.compile(r"(?<=.)[0-9A-F]{8}$")
_SOURCES = {
    "AWS::SQS::Queue": "queue",
    "AWS::DynamoDB::Table": "stream of",
    "AWS::DynamoDB::GlobalTable": "stream of",
    "AWS::Kinesis::Stream": "stream",
}
# These call a function under a role of their own.
_INVOKING = (
    ("AWS::Pipes::Pipe", "pipe", ("Target", "Enrichment")),
    (
        "AWS::StepFunctions::StateMachine",
        "state machine",
        ("DefinitionString", "Definition", "DefinitionSubstitutions"),
    ),
    ("AWS::AppSync::DataSource", "data source", ("LambdaConfig",)),
)
# All others need a permission of the function. The resources of these are looked at themselves.
_SERVICE = ".amazonaws.com"
_SEEN_OTHERWISE = frozenset(
    f"{name}{_SERVICE}"
    for name in ("apigateway", "events", "sns", "s3", "elasticloadbalancing", "scheduler")
)
_ANY_METHOD = "ANY"


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function, as its template or description has it.

    Attributes:
        name: its logical id, after its stack's name if several functions have it; or its name in
            the description.
        handler: `module.name`; empty where the template does not say it.
        runtime: such as `python3.13`; empty for an image, or in a description.
        variables: those of its variables that are plain text.
        resource: its resource; None in a description.
    """

    name: str
    handler: str
    runtime: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    resource: Resource | None = field(default=None, repr=False)

    @property
    def is_python(self) -> bool:
        """Whether its code can be looked at. An image may have any code."""
        return not self.runtime or self.runtime.startswith("python")


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """One thing that makes a function run.

    Attributes:
        name: what a person calls it, such as `POST /payments` or `queue Work`.
        function: the function that it runs.
        is_route: whether it is a request of a client, with a method and a path.
    """

    name: str
    function: Function
    is_route: bool = False

    @property
    def method(self) -> str:
        """The method of a route; `ANY` for all methods."""
        return self.name.partition(" ")[0] if self.is_route else ""

    @property
    def is_for_all_paths(self) -> bool:
        """Whether the function itself finds the route of a request."""
        path = self.name.partition(" ")[2]
        return self.is_route and (self.method == _ANY_METHOD or "+}" in path)

    @property
    def changes_state(self) -> bool:
        """Whether it may change something. A safe method does not (RFC 9110, section 9.2.1)."""
        return self.method not in SAFE


def triggers_in(app: Templates) -> list[Trigger]:
    """All triggers of the functions in the templates, sorted by their names.

    A trigger of a function that is in none of these templates is left out.
    """
    named = [
        (target, name, is_route)
        for target, name, is_route in _named(app)
        if target is not None and target.kind == _FUNCTION
    ]
    functions = _functions(target for target, *_ in named)
    found = {
        (name, functions[target].name): Trigger(
            name=name, function=functions[target], is_route=is_route
        )
        for target, name, is_route in named
    }
    return [found[key] for key in sorted(found)]


def short_name(logical_id: str) -> str:
    """A logical id without the hash that the CDK puts behind it."""
    return _HASH.sub("", logical_id)


def _functions(resources: Iterable[Resource]) -> dict[Resource, Function]:
    """The functions, each under a name of its own: constructs of two stacks may have one id."""
    left = list(dict.fromkeys(resources))
    found: dict[Resource, Function] = {}
    for name_of in (_short, _in_stack, _in_template):
        names = Counter(map(name_of, left))
        found |= {one: _function(one, name_of(one)) for one in left if names[name_of(one)] == 1}
        left = [one for one in left if one not in found]
    return found


def _short(resource: Resource) -> str:
    return short_name(resource.name)


def _in_stack(resource: Resource) -> str:
    stack = PurePath(resource.template_name).name.removesuffix(".template.json")
    return f"{stack}/{short_name(resource.name)}"


def _in_template(resource: Resource) -> str:
    return f"{resource.template_name}/{resource.name}"


def _function(resource: Resource, name: str) -> Function:
    handler, runtime = (resource.properties.get(name) for name in ("Handler", "Runtime"))
    variables = {name: one for name, one in resource.variables.items() if isinstance(one, str)}
    return Function(
        name=name,
        handler=handler if isinstance(handler, str) else "",
        runtime=runtime if isinstance(runtime, str) else "",
        variables=variables,
        resource=resource,
    )


def _named(app: Templates) -> Iterator[tuple[Resource | None, str, bool]]:
    yield from ((target, name, True) for target, name in _routes(app))
    yield from ((target, name, False) for target, name in (*_events(app), *_invocations(app)))


def _routes(app: Templates) -> Iterator[tuple[Resource | None, str]]:
    for route in app.of_kind("AWS::ApiGatewayV2::Route"):
        key = route.properties.get("RouteKey")
        # WebSocket APIs have routes without a path.
        name = "ANY /{proxy+}" if key == "$default" else key
        if isinstance(name, str) and " /" in name:
            for one in app.mentioned(route, route.properties.get("Target")):
                for target in app.mentioned(one, one.properties.get("IntegrationUri")):
                    yield target, name
    for method in app.of_kind("AWS::ApiGateway::Method"):
        integration = mapping(method.properties.get("Integration"))
        for target in app.mentioned(method, integration.get("Uri")):
            yield target, f"{method.properties.get('HttpMethod')} {_path(app, method)}"
    for url in app.of_kind("AWS::Lambda::Url"):
        yield app.referred(url, url.properties.get("TargetFunctionArn")), "ANY /{proxy+} (URL)"
    for group in app.of_kind("AWS::ElasticLoadBalancingV2::TargetGroup"):
        for target in app.mentioned(group, group.properties.get("Targets")):
            yield target, f"ANY /{{proxy+}} (load balancer {short_name(group.name)})"


def _path(app: Templates, method: Resource) -> str:
    parts: list[str] = []
    resource = app.referred(method, method.properties.get("ResourceId"))
    while resource is not None and resource.kind == "AWS::ApiGateway::Resource":
        parts.append(str(resource.properties.get("PathPart")))
        resource = app.referred(resource, resource.properties.get("ParentId"))
    return "/" + "/".join(reversed(parts))


def _events(app: Templates) -> Iterator[tuple[Resource | None, str]]:
    for source in app.of_kind("AWS::Lambda::EventSourceMapping"):
        target = app.referred(source, source.properties.get("FunctionName"))
        origin = app.referred(source, source.properties.get("EventSourceArn"))
        kind = _SOURCES.get(origin.kind, "source") if origin else "source"
        yield target, f"{kind} {short_name((origin or source).name)}"
    for rule in app.of_kind("AWS::Events::Rule"):
        kind = "schedule" if rule.properties.get("ScheduleExpression") else "events of"
        for each in listed(rule.properties.get("Targets")):
            target = app.referred(rule, mapping(each).get("Arn"))
            yield target, f"{kind} {short_name(rule.name)}"
    for schedule in app.of_kind("AWS::Scheduler::Schedule"):
        arn = mapping(schedule.properties.get("Target")).get("Arn")
        yield app.referred(schedule, arn), f"schedule {short_name(schedule.name)}"
    for topic in app.of_kind("AWS::SNS::Subscription"):
        if "lambda" in texts(topic.properties.get("Protocol")):
            target = app.referred(topic, topic.properties.get("Endpoint"))
            yield target, f"topic {short_name(topic.name)}"
    for bucket in app.of_kind("AWS::S3::Bucket", "Custom::S3BucketNotifications"):
        for target in app.mentioned(bucket, bucket.properties.get("NotificationConfiguration")):
            yield target, f"events of {short_name(bucket.name)}"


def _invocations(app: Templates) -> Iterator[tuple[Resource | None, str]]:
    for kind, what, members in _INVOKING:
        for one in app.of_kind(kind):
            for member in members:
                for target in app.mentioned(one, one.properties.get(member)):
                    yield target, f"{what} {short_name(one.name)}"
    # Cognito, IoT, SES and others: what they call is written in resources of many kinds.
    for permission in app.of_kind("AWS::Lambda::Permission"):
        for principal in texts(permission.properties.get("Principal")):
            if principal.endswith(_SERVICE) and principal not in _SEEN_OTHERWISE:
                named = permission.properties.get("FunctionName")
                yield app.referred(permission, named), f"calls of {principal}"


def triggers_of(description: Mapping[str, Any]) -> list[Trigger]:
    """All triggers in a description, as `inspecting` reads it."""
    found: list[Trigger] = []
    for each in description["functions"]:
        function = Function(name=each["name"], handler=each["handler"], variables=each["variables"])
        found += [Trigger(name=name, function=function, is_route=True) for name in each["routes"]]
        found += [Trigger(name=name, function=function) for name in each["events"]]
    return sorted(found, key=lambda one: (one.name, one.function.name))
