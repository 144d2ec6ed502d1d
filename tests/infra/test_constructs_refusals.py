"""What the constructs refuse: at once, or, if it was changed later, when the app is synthesised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import Acknowledgment, App, Duration, Validations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from infra.oncekey_cdk import (
    AuditTable,
    IdempotencyTable,
    IdempotentFunction,
    IdempotentHttpApi,
    IdempotentRestApi,
    OncekeyOperators,
    Outbox,
    Reconciler,
    ResponseBucket,
    UsagePlan,
)
from infra.oncekey_cdk.checks import lease_faults, safe_visibility_timeout_s
from oncekey_local import description
from tests.support.sample_constructs import build_service, let_be, new_stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_cdk import Stack

CODE: dict[str, Any] = {"handler": "index.handler"}


def code() -> lambda_.InlineCode:
    """Some code."""
    return lambda_.Code.from_inline("def handler(event, context): ...")


def _lambda(built: dict[str, Any], name: str) -> Any:
    return built[name].function.node.default_child


def _queue(built: dict[str, Any]) -> Any:
    return built["outbox"].queue.node.default_child


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "visibility timeout": (
        lambda built: setattr(_queue(built), "visibility_timeout", 724),
        "724 s delivers messages again while they are worked on: use at least 725 s",
    ),
    "no visibility timeout": (
        lambda built: setattr(_queue(built), "visibility_timeout", None),
        "a visibility timeout of 30 s delivers messages again",
    ),
    "raw override": (
        lambda built: _queue(built).add_property_override("VisibilityTimeout", 1),
        "a visibility timeout of 1 s",
    ),
    "partial answers": (
        lambda built: setattr(built["mapping"], "function_response_types", []),
        "one failed record repeats its whole batch",
    ),
    "worker's timeout": (
        lambda built: setattr(_lambda(built, "worker"), "timeout", 121),
        "at least 731 s, six times the function's timeout",
    ),
    "window": (
        lambda built: setattr(built["mapping"], "maximum_batching_window_in_seconds", 6),
        r"at least 726 s, six times the function's timeout \(120 s\) plus the window \(6 s\)",
    ),
    "lease": (
        lambda built: built["worker"].function.add_environment("ONCEKEY_DEFAULT_LEASE_MS", "60000"),
        "is 60000 ms. It ends before the function's timeout of 120 s",
    ),
    "no number": (
        lambda built: built["worker"].function.add_environment("ONCEKEY_LEASE_MARGIN_MS", "5s"),
        "ONCEKEY_LEASE_MARGIN_MS is '5s': a whole number is needed",
    ),
    "API": (
        lambda built: setattr(_lambda(built, "function"), "timeout", 30),
        "PaymentsFunction.*: a .* timeout of 30 s is longer than the API waits: use at most 29 s",
    ),
    "retention": (
        lambda built: built["function"].function.add_environment("ONCEKEY_RETENTION_S", "25"),
        r"ONCEKEY_RETENTION_S is 25. It is not longer than a lease \(25 s",
    ),
    "bucket": (
        lambda built: built["function"].function.add_environment("ONCEKEY_RETENTION_S", "172800"),
        "the bucket removes answers after 3 days, .* at least 4 days",
    ),
    "wait": (
        lambda built: [
            built["function"].function.add_environment(name, value)
            for name, value in (
                ("ONCEKEY_IN_PROGRESS", "wait"),
                ("ONCEKEY_WAIT_UP_TO_MS", "20000"),
            )
        ],
        "a waiting client is cut off and gets no 409",
    ),
}


@pytest.mark.case(39)
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_later_is_refused_when_synthesised(change: str) -> None:
    """No app is synthesised in which a message is worked on twice, or a lease, a retention or an
    API ends before the function does, whoever changed what on the way.

    Red when what the constructs were given is looked at, and not the templates.
    """
    stack = new_stack()
    do, complaint = CHANGES[change]
    do(build_service(stack))
    app = stack.node.root
    assert isinstance(app, App)

    with pytest.raises(RuntimeError, match=f"ERROR .*{complaint}"):
        app.synth()


PEOPLES_QUEUES: dict[str, Callable[[dict[str, Any]], sqs.Queue]] = {
    "dead letters": lambda built: built["outbox"].dead_letters,
    "given up by the relay": lambda built: built["outbox"].given_up,
    "escalated, and failed runs": lambda built: built["reconciler"].escalated,
}


@pytest.mark.fault("K5.8")
@pytest.mark.parametrize("kept_s", [13 * 86_400, None], ids=["13 days", "SQS's own"])
@pytest.mark.parametrize("queue", PEOPLES_QUEUES)
def test_no_queue_that_waits_for_people_keeps_its_messages_for_less_than_14_days(
    queue: str, kept_s: int | None
) -> None:
    """A queue that is told of dead letters, failed runs or escalations, and is given another
    retention on the way, is refused when the app is synthesised.

    Red when `_waits_for_people` leaves out one of the ways in which a queue is told.
    """
    stack = new_stack()
    changed: Any = PEOPLES_QUEUES[queue](build_service(stack)).node.default_child
    changed.message_retention_period = kept_s
    app = stack.node.root
    assert isinstance(app, App)

    with pytest.raises(RuntimeError, match="messages are for people, and it keeps them for only"):
        app.synth()


def test_who_knows_better_acknowledges_it() -> None:
    """A rule that is acknowledged on its resource, with a reason, lets the app be synthesised."""
    stack = new_stack()
    built = build_service(stack)
    built["function"].function.add_environment("ONCEKEY_RETENTION_S", "172800")
    known = Acknowledgment(id="oncekey::AnswersKept", reason="no answer is as large as that")
    Validations.of(built["function"]).acknowledge(known)
    app = stack.node.root
    assert isinstance(app, App)

    assert app.synth().stacks


def _function(stack: Stack, **props: Any) -> IdempotentFunction:
    return IdempotentFunction(stack, "Payments", code=code(), **CODE, **props)


def _given_too_short(stack: Stack) -> None:
    outbox = Outbox(stack, "Outbox", visibility_timeout=Duration.seconds(119))
    outbox.add_worker(_function(stack))


def _same_worker(stack: Stack) -> None:
    outbox, worker = Outbox(stack, "Outbox"), _function(stack)
    outbox.add_worker(worker)
    outbox.add_worker(worker)


def _second_operators(stack: Stack) -> None:
    records, audit = IdempotencyTable(stack, "Records"), AuditTable(stack, "Audit")
    for name in ("Operators", "Others"):
        OncekeyOperators(stack, name, table=records, audit=audit)


def _second_outbox(stack: Stack) -> None:
    worker = _function(stack)
    Outbox(stack, "Outbox").add_worker(worker)
    Outbox(stack, "Other").add_worker(worker)


REFUSED: dict[str, tuple[Callable[[Stack], object], list[str]]] = {
    "function": (
        lambda stack: _function(
            stack,
            table=IdempotencyTable(stack, "Records"),
            responses=ResponseBucket(stack, "Answers"),
            timeout=Duration.seconds(100),
            environment={
                "ONCEKEY_TABLE": "another",
                "ONCEKEY_DEFAULT_LEASE_MS": "1000",
                "ONCEKEY_RETENTION_S": "90000",
            },
            function_props={"role": None, "memory": 1},
        ),
        [
            "IdempotentFunction 'Stack/Payments' is wrong: ",
            "environment['ONCEKEY_TABLE'] is set by another argument too",
            "ONCEKEY_DEFAULT_LEASE_MS, the lease of a call without Lambda's context, is 1000 ms",
            "the bucket removes answers after 3 days",
            "function_props['role'] cannot be overridden",
            "function_props['memory'] is no property of Function",
        ],
    ),
    "outbox": (
        lambda stack: Outbox(
            stack,
            "Outbox",
            retention=Duration.days(14),
            max_receives=0,
            table_props={"stream": None},
            queue_props={"delay": 1},
            relay_props={"environment": {}},
        ),
        [
            "Outbox 'Stack/Outbox' is wrong: ",
            "less than the 14 days of dead letters",
            "max_receives is 0: use 1 to 1000",
            "table_props['stream'] cannot be overridden",
            "queue_props['delay'] is no property of Queue",
            "relay_props['environment'] cannot be overridden",
        ],
    ),
    "visibility timeout": (
        _given_too_short,
        ["Outbox 'Stack/Outbox/Queue' is wrong: a visibility timeout of 119 s", "at least 120"],
    ),
    "same worker": (
        _same_worker,
        ["Outbox 'Stack/Outbox/Queue' is wrong: worker 'Stack/Payments' works for it already"],
    ),
    "second operators": (
        _second_operators,
        ["OncekeyOperators 'Stack/Others' is wrong: the stack has 'Stack/Operators' already"],
    ),
    "variable": (
        lambda stack: IdempotentFunction(
            stack, "Payments", code=code(), handler="index.handler", environment={"my-table": "x"}
        ),
        ["IdempotentFunction 'Stack/Payments' is wrong: a variable 'my-table': a letter first"],
    ),
    "second outbox": (
        _second_outbox,
        ["worker 'Stack/Payments' works for 'Stack/Outbox' already"],
    ),
    "route": (
        lambda stack: IdempotentHttpApi(
            stack, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["payments"]
        ).add_route(_function(stack), "FETCH", "payments/{id"),
        [
            "IdempotentHttpApi 'Stack/Api/FETCH payments/{id' is wrong: method 'FETCH'",
            "path 'payments/{id' must begin with a slash",
            "path 'payments/{id': a parameter is a whole segment",
        ],
    ),
    "reconciler": (
        lambda stack: Reconciler(
            stack,
            "Reconciler",
            table=IdempotencyTable(stack, "Records"),
            code=code(),
            every=Duration.seconds(90),
            function_props={"role": None},
        ),
        [
            "Reconciler 'Stack/Reconciler' is wrong: every is 90 s: use whole",
            "code and handler belong together",
            "function_props['role'] cannot be overridden",
        ],
    ),
    "HTTP API": (
        lambda stack: IdempotentHttpApi(
            stack,
            "Api",
            jwt_issuer="http://login.example.com",
            jwt_audience=[],
            api_props={"create_default_stage": True},
            stage_props={"nmae": "v1"},
        ),
        [
            "jwt_issuer must be an https:// URL",
            "jwt_audience is empty, so any token of the issuer would pass",
            "api_props['create_default_stage'] cannot be overridden",
            "stage_props['nmae'] is no property of HttpStage",
        ],
    ),
    "REST API": (
        lambda stack: IdempotentRestApi(
            stack,
            "Api",
            usage_plans={"Gold!": UsagePlan(requests_per_second=0, burst_requests=1)},
            api_props={"deploy_options": None},
            stage_props={"nmae": "v1"},
        ),
        [
            "usage plan 'Gold!': use letters and digits only",
            "requests_per_second is 0, at least 1",
            "api_props['deploy_options'] cannot be overridden",
            "stage_props['nmae'] is no property of StageOptions",
        ],
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_all_that_is_wrong_is_said_at_once(kind: str) -> None:
    """A construct that cannot be is refused with every fault, by its path."""
    build, complaints = REFUSED[kind]

    with pytest.raises(ValueError, match=r" is wrong: ") as refused:
        build(new_stack())

    assert [one for one in complaints if one not in str(refused.value)] == []


def test_an_arn_is_no_name_of_a_table() -> None:
    """The grants would be for a table of that name, which cannot be there."""
    arn = "arn:aws:dynamodb:eu-west-1:111111111111:table/records"

    with pytest.raises(ValueError, match="is an ARN: use from_table_arn"):
        IdempotencyTable.from_table_name(new_stack(), "Records", arn)


def test_a_queue_that_hides_messages_for_longer_is_accepted() -> None:
    """A given visibility timeout that is longer than it must be stays."""
    stack = new_stack()
    outbox = Outbox(stack, "Outbox", visibility_timeout=Duration.seconds(500))
    worker = _function(stack)
    let_be(worker, "FunctionTable")
    outbox.add_worker(worker)
    queue = outbox.queue.node.default_child
    assert isinstance(queue, sqs.CfnQueue)

    assert queue.visibility_timeout == 500
    app = stack.node.root
    assert isinstance(app, App)
    assert app.synth().stacks


def test_what_no_number_says_has_the_layers_default() -> None:
    """The checks know the library's own defaults: a lease of a minute is enough for a minute."""
    assert [*lease_faults(timeout_s=60, environment={})] == []
    (fault,) = lease_faults(timeout_s=61, environment={})
    assert "is 60000 ms" in fault


@pytest.mark.case(39)
def test_constructs_and_description_have_one_rule() -> None:
    """The local runtime's description and the constructs hide messages for the same time.

    Red when one of the two rules changes alone.
    """
    for timeout_s, window_s in ((1, 0), (60, 5), (900, 300)):
        given = {"timeout_s": timeout_s, "window_s": window_s}
        assert safe_visibility_timeout_s(**given) == description.safe_visibility_timeout_s(**given)
