"""What is watched beside errors: what stands still, what does not run, what does not agree."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import jsii
import pytest
from aws_cdk import App, Environment, Stack, aws_apigateway, aws_apigatewayv2
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Annotations, Match, Template
from aws_cdk.aws_secretsmanager import Secret
from constructs import Construct

from functions.ledger.handler import emit_metrics
from functions.ledger.models import Outcome, Window
from functions.ledger.sources import PAYMENTS, REFUNDS
from infra.oncekey_cdk import (
    IdempotencyTable,
    IdempotentFunction,
    IdempotentHttpApi,
    IdempotentRestApi,
    IdempotentService,
    Observability,
    Outbox,
    Reconciler,
)
from infra.oncekey_cdk.saved_queries import OF_FUNCTIONS
from infra.service import SERVICE
from oncekey.telemetry import quotas as quota_telemetry
from oncekey.telemetry.metrics import CATALOGUE
from tests.support.sample_constructs import let_be, new_stack
from tests.support.sample_templates import named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.templates import Synthesised

KIND = "AWS::CloudWatch::Alarm"


def _function(scope: Construct, name: str, table: IdempotencyTable) -> IdempotentFunction:
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    return IdempotentFunction(scope, name, code=code, handler="index.handler", table=table)


@pytest.fixture(scope="module")
def watched() -> Template:
    """Two of everything under one name, in two places of one stack, all of it watched."""
    stack = new_stack()
    records = IdempotencyTable(stack, "Records")
    functions: list[IdempotentFunction] = []
    apis: list[IdempotentHttpApi | IdempotentRestApi] = []
    tables = [records]
    for place in ("One", "Two"):
        scope = Construct(stack, place)
        tables.append(IdempotencyTable(Construct(scope, "Data"), "Payments"))
        functions.append(_function(scope, "Payments", records))
        apis += [
            IdempotentHttpApi(
                scope, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["payments"]
            ),
            IdempotentRestApi(scope, "Rest"),
        ]
        apis[-1].add_route(functions[-1], "POST", "/payments")
    outbox = Outbox(stack, "Outbox")
    outbox.add_worker(functions[0])
    reconciler = Reconciler(stack, "Reconciler", table=records, outbox=outbox)
    alarms = Observability(
        stack,
        "Alarms",
        functions=[*functions, functions[0]],
        tables=tables,
        outboxes=[outbox],
        reconcilers=[reconciler],
        apis=apis,
    )
    alarms.watch_ledger("Ledger", ledger="payments", service="payments")
    return Template.from_stack(stack)


@pytest.mark.fault("K14.5")
def test_alarms_of_two_apis_do_not_collide(watched: Template) -> None:
    """Two HTTP and two REST APIs, two functions and two tables of one name have alarms of their
    own, each on a metric of its own, and what is named twice has them once.

    Red when a second one ends the synthesis, or two alarms look at one metric.
    """
    alarms = [one["Properties"] for one in watched.find_resources(KIND).values()]
    metrics = [
        json.dumps([one["Namespace"], one["MetricName"], one.get("Dimensions")])
        for one in alarms
        if "MetricName" in one
    ]

    assert sorted(set(metrics)) == sorted(metrics)
    failures = [one for one in alarms if one.get("MetricName") in {"5xx", "5XXError"}]
    assert len(failures) == 4
    names = [
        one["Properties"]["Name"]
        for one in watched.find_resources("AWS::ApiGateway::RestApi").values()
    ]
    assert len({*names}) == 2


@pytest.mark.fault("K14.5")
def test_rest_apis_of_one_name_are_not_watched_together() -> None:
    """Two REST APIs that were given one name have one metric, which is refused.

    Red when each has an alarm that the other sets off.
    """
    stack = new_stack()
    apis = [
        IdempotentRestApi(stack, name, api_props={"rest_api_name": "payments"})
        for name in ("One", "Two")
    ]

    with pytest.raises(
        ValueError, match="'Stack/One' and 'Stack/Two' have the same name 'payments'"
    ):
        Observability(stack, "Alarms", apis=apis)


def _alarm(template: Template, name: str) -> dict[str, Any]:
    return named(template, KIND, f"Alarms{name}")


@pytest.mark.fault("K14.9")
def test_a_stalled_outbox_an_absent_reconciler_and_a_difference_are_alarms(
    watched: Template,
) -> None:
    """`Observability` tells of a relay that is behind, of messages that wait for the reconciler
    run after run, of a reconciler that is not called, and of ledgers that differ.

    Red when silence counts as good news.
    """
    assert _alarm(watched, "OutboxBehind")["MetricName"] == "IteratorAge"
    stalled = _alarm(watched, "ReconcilerOutboxStalled")
    assert stalled["Namespace"] == "oncekey"
    assert (stalled["EvaluationPeriods"], stalled["Threshold"]) == (3, 0)
    assert stalled["MetricName"] == "MessagesResent"
    absent = _alarm(watched, "ReconcilerAbsent")
    assert (absent["MetricName"], absent["TreatMissingData"]) == ("ReconcilerRuns", "breaching")
    assert (absent["ComparisonOperator"], absent["Threshold"]) == ("LessThanThreshold", 1)
    assert (absent["Period"], absent["EvaluationPeriods"]) == (300, 3)
    ledgers = [_alarm(watched, f"Ledger{end}") for end in _ENDS]
    assert {one["TreatMissingData"] for one in ledgers} == {"ignore"}
    for alarm in (stalled, absent, *ledgers):
        assert ". " in alarm["AlarmDescription"]  # what happened, and what to do
        assert len(alarm["AlarmActions"]) == 1


@pytest.mark.fault("K14.9")
def test_the_reference_service_is_watched_for_silence_and_differences(app: Synthesised) -> None:
    """Its relay, its reconciler, its ledger's runs and both ledgers have those alarms, on metrics
    that the ledger function emits.

    Red when the service stack has fewer alarms than the constructs offer.
    """
    names = [
        "OutboxRelayBehind",
        "ReconcilerOutboxStalled",
        "ReconcilerAbsent",
        "LedgerAbsent",
        *(f"Ledger{name}{what}" for name in ("Payments", "Refunds") for what in _ENDS),
    ]
    alarms = {name: _alarm(app.service, name) for name in names}

    assert _alarm(app.service, "LedgerAbsent")["Period"] == 24 * 3600
    described = [one.compares for one in SERVICE.functions if one.compares]
    assert described == [(PAYMENTS.name, REFUNDS.name)]
    read = {
        (alarm["MetricName"], *sorted(one["Value"] for one in alarm["Dimensions"]))
        for name, alarm in alarms.items()
        if name.startswith("LedgerRefunds")
    }
    (ledger,) = app.service.find_resources("AWS::Lambda::Function", LEDGER).values()
    service = ledger["Properties"]["Environment"]["Variables"]["ONCEKEY_METRICS_SERVICE"]
    assert read == {(f"Ledger{end}", *sorted((service, "refunds"))) for end in _ENDS}


def test_a_ledger_is_watched_without_the_layers_metrics() -> None:
    """A service may switch those off (ONCEKEY_METRICS_NAMESPACE). Its ledger function emits its own
    under the name that it is told all the same.

    Red when the alarm looks at a name that no metric has.
    """
    stack = new_stack()
    (ledger,) = (one for one in SERVICE.functions if one.compares)
    quiet = {**ledger.environment, "ONCEKEY_METRICS_NAMESPACE": ""}
    service = replace(SERVICE, functions=(replace(ledger, environment=quiet),))
    settings: dict[str, Any] = {
        "provider-url": "https://api.stripe.com",
        "provider-api-key": Secret.from_secret_name_v2(stack, "Key", "key"),
    }
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    created = IdempotentService(stack, "Service", service, settings=settings, code=code)

    dimensions = {
        one["value"]
        for name, alarm in created.alarms.alarms.items()
        if name.startswith("LedgerPayments")
        for one in stack.resolve(cast("Any", alarm.node.default_child).dimensions)
    }
    assert dimensions == {"payments", "Stack-Service"}


LEDGER = {"Properties": {"Handler": "functions.ledger.handler.handler"}}
_ENDS = ("Different", "OnlyOurs", "OnlyTheirs", "Incomplete")


@pytest.mark.fault("K14.9")
def test_the_ledgers_metrics_have_the_dimensions_that_are_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the ledger function emits carries its ledger and its service, and no more.

    Red when an alarm looks at dimensions that no metric has.
    """
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "payments")
    monkeypatch.setenv("ONCEKEY_METRICS_SERVICE", "payments-dev-service")

    emit_metrics(Outcome(ledger="refunds", window=Window(start_s=0, end_s=1), totals=None))

    emitted = json.loads(capsys.readouterr().out)
    (told,) = emitted["_aws"]["CloudWatchMetrics"]
    assert told["Namespace"] == "oncekey"
    assert [sorted(each) for each in told["Dimensions"]] == [["ledger", "service"]]
    assert (emitted["ledger"], emitted["service"]) == ("refunds", "payments-dev-service")


def test_the_metrics_that_a_query_adds_up_are_emitted() -> None:
    """A query of a metric under another name would find nothing, and say nothing."""
    added_up = {
        name for text in OF_FUNCTIONS.values() for name in re.findall(r"sum\((\w+)\)", text)
    }

    assert added_up == {"Replayed", "InProgress", "KeyReused"}
    assert added_up <= {metric.name for metric in CATALOGUE}


def test_the_query_by_tenant_counts_requests_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A request that is refused for its quota is one line of metrics and one of the log, both with
    its tenant, and counts once.

    Red when every line that names a tenant is taken for a request.
    """
    which = OF_FUNCTIONS["Which tenants repeat requests"].partition("|")[0]
    needed, *one_of = re.findall(r"ispresent\((\w+)\)", which)

    def counts(line: Mapping[str, object]) -> bool:
        return needed in line and any(name in line for name in one_of)

    with caplog.at_level(logging.INFO, "oncekey"):
        quota_telemetry.exceeded("POST /payments", "acme", "new_keys")

    assert [vars(record)["tenant"] for record in caplog.records] == ["acme"]
    assert not any(counts(vars(record)) for record in caplog.records)
    for name in ("Reserved", "Replayed", "InProgress", "KeyReused", "QuotaExceeded", "Paused"):
        assert counts({"service": "s", "operation": "o", "tenant": "acme", name: 1})


def test_a_stack_without_a_reconciler_has_no_alarm_on_one() -> None:
    """Nothing is watched that is not there."""
    stack = new_stack()
    records = IdempotencyTable(stack, "Records")
    let_be(records, "Reconciler")
    Observability(stack, "Alarms", functions=[_function(stack, "Payments", records)])

    template = Template.from_stack(stack)
    assert not [name for name in template.find_resources(KIND) if "Absent" in name]


def test_an_unwatched_deployment_has_no_alarms_dashboard_or_queries() -> None:
    """`-c oncekey:watched=false` leaves out what watches, and keeps the function, its log and the
    topic; the context's true leaves it in; another value is refused.
    """
    kinds = (KIND, "AWS::CloudWatch::Dashboard", "AWS::Logs::QueryDefinition")
    found = {}
    for value in ("true", "false"):
        stack = new_stack({"oncekey:watched": value})
        function = _function(stack, "Payments", IdempotencyTable(stack, "Records", due_index=False))
        alarms = Observability(stack, "Alarms", functions=[function])
        assert "PaymentsErrors" in alarms.alarms
        template = Template.from_stack(stack).to_json()["Resources"].values()
        found[value] = [one["Type"] for one in template]

    assert {*kinds} <= {*found["true"]}
    assert found["false"] == [kind for kind in found["true"] if kind not in kinds]
    assert {"AWS::Lambda::Function", "AWS::SNS::Topic"} <= {*found["false"]}
    with pytest.raises(ValueError, match="oncekey:watched=no is unknown: true or false"):
        Observability(new_stack({"oncekey:watched": "no"}), "Alarms")


@jsii.implements(aws_apigatewayv2.IAccessLogSettings)
class _OtherLog:
    """An access log of somebody else."""

    def __init__(self, stack: Stack) -> None:
        self._group = logs.LogGroup(stack, "OtherLog")

    @property
    def destination(self) -> aws_apigatewayv2.LogGroupLogDestination:
        return aws_apigatewayv2.LogGroupLogDestination(self._group)

    @property
    def format(self) -> None:
        return None


def test_an_api_with_another_access_log_has_no_alarm_that_cannot_go_off() -> None:
    """Refusals are counted in the construct's own access log; without it, nothing counts them."""
    stack = new_stack()
    http = IdempotentHttpApi(
        stack,
        "Http",
        jwt_issuer="https://login.example.com/",
        jwt_audience=["a"],
        stage_props={"access_log_settings": cast("Any", _OtherLog(stack))},
    )
    other_format = {"access_log_format": aws_apigateway.AccessLogFormat.clf()}
    rest = IdempotentRestApi(stack, "Rest", stage_props=other_format)
    rest.api.root.add_method("GET")
    watched = Observability(stack, "Alarms", apis=[http, rest])

    assert {name for name in watched.alarms if name.startswith(("Http", "Rest"))} == {
        "HttpFailures",
        "HttpClientErrors",
        "RestFailures",
        "RestClientErrors",
    }
    Template.from_stack(stack).resource_count_is("AWS::Logs::MetricFilter", 0)


@pytest.mark.parametrize(("account", "is_watched"), [("1" * 12, True), ("2" * 12, False)])
def test_a_table_of_another_account_has_no_alarm_that_cannot_go_off(
    account: str, *, is_watched: bool
) -> None:
    """Its metrics are in its own account, and the synthesis says so."""
    stack = Stack(App(), "Stack", env=Environment(account="1" * 12, region="eu-central-1"))
    arn = f"arn:aws:dynamodb:eu-central-1:{account}:table/records"
    table = IdempotencyTable.from_table_arn(stack, "Records", arn)

    watched = Observability(stack, "Alarms", tables=[table])

    assert ("RecordsThrottles" in watched.alarms) is is_watched
    told = Annotations.from_stack(stack).find_warning("*", Match.any_value())
    assert [each for each in told if "so are its metrics" in str(each.entry.data)] == told
    assert bool(told) is not is_watched
