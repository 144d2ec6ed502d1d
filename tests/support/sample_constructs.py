"""Stacks made of the constructs, as another team would write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.node import use_packaged_node

# The CDK starts node as it is imported.
use_packaged_node()

from aws_cdk import App, Duration, Stack  # noqa: E402
from aws_cdk import aws_iam as iam  # noqa: E402
from aws_cdk import aws_lambda as lambda_  # noqa: E402

from infra import oncekey_cdk  # noqa: E402
from infra.oncekey_cdk.synth_checks import acknowledge  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aws_cdk.assertions import Template
    from constructs import IConstruct

Resource = dict[str, Any]


def new_stack(context: dict[str, Any] | None = None) -> Stack:
    """An empty stack of an app of its own."""
    return Stack(App(analytics_reporting=False, context=context), "Stack")


def let_be(scope: IConstruct, *rules: str) -> None:
    """Acknowledge what these rules find of a part of a service that is not there as a whole."""
    for rule in rules:
        acknowledge(scope, rule, "a test of one part")


def new_role(stack: Stack, name: str) -> iam.Role:
    """A role that nothing has been granted to."""
    return iam.Role(stack, name, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


def only(template: Template, kind: str) -> Resource:
    """The properties of the only resource of this kind."""
    (resource,) = template.find_resources(kind).values()
    properties: Resource = dict(resource)["Properties"]
    return properties


def statements(template: Template, role: str) -> list[Resource]:
    """The statements of this role's policies, whose logical ids begin with its name."""
    policies = template.find_resources("AWS::IAM::Policy")
    return [
        dict(statement)
        for policy in policies.values()
        if any(one["Ref"].startswith(role) for one in policy["Properties"]["Roles"])
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]


def grants(template: Template, role: str) -> set[tuple[tuple[str, ...], str]]:
    """What a role may do to what, resources by logical id without its hash, and what follows."""
    return {
        (tuple([one["Action"]] if isinstance(one["Action"], str) else one["Action"]), named)
        for one in statements(template, role)
        if one["Effect"] == "Allow"
        for resource in (
            one["Resource"] if isinstance(one["Resource"], list) else [one["Resource"]]
        )
        for named in _named(resource)
    }


def _named(resource: Any) -> Iterator[str]:
    match resource:
        case {"Fn::GetAtt": [name, attribute]}:
            yield f"{name[:-8]}.{attribute}"
        case {"Fn::Join": ["", parts]}:
            texts = (part if isinstance(part, str) else "".join(_named(part)) for part in parts)
            yield "".join(texts)
        case {"Ref": name}:
            yield f"<{name}>"
        case _:
            yield str(resource)


def build_service(stack: Stack) -> dict[str, Any]:
    """A whole service in one statement each, of which nothing but the necessary was asked."""
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    records, answers, outbox = (
        oncekey_cdk.IdempotencyTable(stack, "Records"),
        oncekey_cdk.ResponseBucket(stack, "Answers"),
        oncekey_cdk.Outbox(stack, "Outbox"),
    )
    api_function = oncekey_cdk.IdempotentFunction(
        stack,
        "Payments",
        code=code,
        handler="index.handler",
        table=records,
        outbox=outbox,
        responses=answers,
    )
    worker = oncekey_cdk.IdempotentFunction(
        stack,
        "Worker",
        code=code,
        handler="index.handler",
        timeout=Duration.seconds(120),
        table=records,
        responses=answers,
    )
    mapping = outbox.add_worker(worker, window=Duration.seconds(5))
    reconciler = oncekey_cdk.Reconciler(
        stack,
        "Reconciler",
        table=records,
        outbox=outbox,
        responses=answers,
    )
    api = oncekey_cdk.IdempotentHttpApi(
        stack, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["payments"]
    )
    api.add_route(api_function, "POST", "/payments")
    api.add_route(api_function, "POST", "/webhooks", authorized=False)
    oncekey_cdk.Observability(
        stack,
        "Alarms",
        functions=[api_function, worker],
        tables=[records],
        outboxes=[outbox],
        reconcilers=[reconciler],
        apis=[api],
    )
    return {
        "records": records,
        "answers": answers,
        "outbox": outbox,
        "function": api_function,
        "worker": worker,
        "mapping": mapping,
        "reconciler": reconciler,
        "api": api,
    }
