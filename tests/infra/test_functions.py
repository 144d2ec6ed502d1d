"""The functions of the service stack: code, settings and logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.layer_bundle import bundle_layer, measure
from infra.layer_requirements import LayerTarget
from infra.oncekey_cdk.described.names import pascal
from infra.service import SERVICE
from oncekey_local.description import BucketName, QueueUrl, Setting, TableName
from tests.support.sample_templates import called, named

if TYPE_CHECKING:
    from pathlib import Path

    from oncekey_local.description import EnvironmentValue, Function
    from tests.support.templates import Synthesised

KIND = "AWS::Lambda::Function"

every_function = pytest.mark.parametrize("described", SERVICE.functions, ids=lambda one: one.name)


def _asset(app: Synthesised, folder_in_it: str) -> Path:
    (found,) = [path for path in app.folder.glob("asset.*") if (path / folder_in_it).is_dir()]
    return found


def _function(app: Synthesised, described: Function) -> dict[str, Any]:
    return named(app.service, KIND, f"{pascal(described.name)}Function")


def test_the_functions_are_those_of_the_description(app: Synthesised) -> None:
    """One function stands for each described one, and no other."""
    app.service.resource_count_is(KIND, len(SERVICE.functions))
    app.stateful.resource_count_is(KIND, 0)


@every_function
def test_a_function_is_as_described(app: Synthesised, described: Function) -> None:
    """Handler, timeout and memory are the description's; runtime, processor and tracing ours."""
    created = _function(app, described)

    assert created["Handler"] == described.handler
    assert (created["Timeout"], created["MemorySize"]) == (described.timeout_s, described.memory_mb)
    assert (created["Runtime"], created["Architectures"]) == ("python3.13", ["arm64"])
    assert created["TracingConfig"] == {"Mode": "Active"}
    assert created["LoggingConfig"]["LogGroup"]["Ref"].startswith(f"{pascal(described.name)}Logs")


@every_function
def test_the_environment_is_as_described(app: Synthesised, described: Function) -> None:
    """A function is told every variable of the description, resolved, and the construct's choice of
    the transport and of its metrics, and no other.
    """
    variables = _function(app, described)["Environment"]["Variables"]

    expected = {_variable(name, value): value for name, value in described.environment.items()}
    assert variables.pop("ONCEKEY_TRANSPORT") == "direct"
    assert variables.pop("ONCEKEY_PAUSE_CHECK_S") == "10"
    assert variables.pop("ONCEKEY_METRICS_NAMESPACE") == "oncekey"
    # Metrics of two stages must not be added up.
    assert variables.pop("ONCEKEY_METRICS_SERVICE") == f"payments-{app.stage}-service"
    assert set(variables) == set(expected)
    for name, value in expected.items():
        assert _is_resolved(variables[name], value), f"{name} is {variables[name]}"


def _variable(name: str, value: EnvironmentValue) -> str:
    is_secret = isinstance(value, Setting) and value.secret
    return f"{name}_ARN" if is_secret else name


def _is_resolved(given: Any, value: EnvironmentValue) -> bool:
    match value:
        case TableName(table=name):
            # The CDK names the export after the table's construct and what it exports of it.
            return f"Ref{pascal(name)}Table" in str(given)
        case BucketName(bucket=name):
            return f"Ref{pascal(name)}Bucket" in str(given)
        case QueueUrl(queue=name):
            return f"Ref{pascal(name)}Queue" in str(given)
        case Setting(secret=True):
            return str(given).startswith("oncekey/")
        case Setting():
            return bool(given == "https://api.stripe.com")
        case _:
            return bool(given == value)


def _policy(app: Synthesised, described: Function) -> Any:
    return named(app.service, "AWS::IAM::Policy", f"{pascal(described.name)}RoleDefaultPolicy")


@pytest.mark.fault("K14.8")
@pytest.mark.parametrize("stage", ["dev", "production"])
def test_secrets_are_only_references(stage: str, request: pytest.FixtureRequest) -> None:
    """A template names the secrets that hold the provider's key and what it signs webhooks with,
    none is resolved into a variable, and no parameter passes them along.

    Only the functions that call the provider may read the one, and the webhook's the other.

    Red when a secret stands in a function's configuration, or a function may read another's.
    """
    app: Synthesised = request.getfixturevalue(stage)

    def holders(variable: str) -> dict[str, str]:
        return {
            described.name: value
            for described in SERVICE.functions
            if (value := _function(app, described)["Environment"]["Variables"].get(variable))
        }

    def readers(name: str) -> set[str]:
        return {
            described.name
            for described in SERVICE.functions
            if f":secret:{name}-??????" in json.dumps(_policy(app, described))
        }

    key, secret = (
        f"oncekey/payments-{stage}/{name}" for name in ("provider-api-key", "webhook-secret")
    )
    asking = ("refunds", "outbox-worker", "reconciler", "ledger")
    assert holders("PROVIDER_API_KEY_ARN") == dict.fromkeys(asking, key)
    assert holders("ONCEKEY_WEBHOOK_SECRET_ARN") == {"webhooks": secret}
    assert readers(key) == set(asking)
    assert readers(secret) == {"webhooks"}
    assert "{{resolve:" not in app.text()
    assert not holders("PROVIDER_API_KEY") | holders("ONCEKEY_WEBHOOK_SECRET")
    assert set(app.service.to_json()["Parameters"]) == {"BootstrapVersion"}


@pytest.mark.parametrize(
    ("stage", "days", "policy"), [("dev", 7, "Delete"), ("production", 180, "Retain")]
)
def test_every_log_ends(stage: str, days: int, policy: str, request: pytest.FixtureRequest) -> None:
    """Functions and API log to groups of ours whose entries are forgotten after a stated time."""
    app: Synthesised = request.getfixturevalue(stage)

    app.service.resource_count_is("AWS::Logs::LogGroup", len(SERVICE.functions) + 1)
    app.service.all_resources("AWS::Logs::LogGroup", {"DeletionPolicy": policy})
    app.service.all_resources_properties("AWS::Logs::LogGroup", {"RetentionInDays": days})


def test_the_layer_of_the_stack_is_the_bundle(app: Synthesised) -> None:
    """The layer's asset is the bundle of the stage's runtime, which the template names."""
    bundle = bundle_layer(LayerTarget())
    (layer,) = app.properties("AWS::Lambda::LayerVersion")

    assert measure(_asset(app, "python"))[0] == bundle.digest
    assert layer["CompatibleRuntimes"] == ["python3.13"]
    assert layer["CompatibleArchitectures"] == ["arm64"]


@every_function
def test_the_code_asset_holds_the_functions_only(app: Synthesised, described: Function) -> None:
    """The functions' asset holds every handler at its dotted path and nothing from elsewhere."""
    asset = _asset(app, "functions")
    module, _, _ = described.handler.rpartition(".")

    assert [path.name for path in asset.iterdir()] == ["functions"]
    assert asset.joinpath(*module.split(".")).with_suffix(".py").is_file()
    assert not list(asset.rglob("__pycache__"))


def test_no_message_outlives_its_record() -> None:
    """A worker's record is kept for longer than its message can be in the queue and, after that,
    among its dead letters.
    """
    from functions.outbox_worker.handler import RETENTION
    from oncekey_local.description.event_faults import DEAD_LETTER_RETENTION_DAYS

    (queue,) = [queue for queue in SERVICE.queues if queue.name == "payments"]
    assert SERVICE.retention_days(queue) + DEAD_LETTER_RETENTION_DAYS < RETENTION.days


def test_who_accepts_who_works_and_who_tells_share_what_they_know() -> None:
    """An accepted request reaches the worker, and its record and answer are where those who accept
    it, carry it out and tell of it look for them.
    """
    functions = {one.name: one.environment for one in SERVICE.functions}

    for variable in ("ONCEKEY_TABLE", "ONCEKEY_RESPONSE_BUCKET"):
        where = {functions[name][variable] for name in ("reports", "operations", "outbox-worker")}
        assert len(where) == 1, variable
    reports, relay, worker = (
        functions[name] for name in ("reports", "outbox-relay", "outbox-worker")
    )
    assert reports["ONCEKEY_OUTBOX_TABLE"] == relay["ONCEKEY_OUTBOX_TABLE"]
    assert relay["ONCEKEY_QUEUE_URL"] == worker["ONCEKEY_QUEUE_URL"]
    assert reports["REPORTS_TABLE"] == worker["REPORTS_TABLE"]


def test_a_batch_of_the_worker_fits_into_its_timeout() -> None:
    """Five charges that the provider lets run into the time limit end before the function does."""
    from functions.shared.provider import TIMEOUT_S

    (worker,) = [one for one in SERVICE.functions if one.name == "outbox-worker"]
    (trigger,) = worker.queues
    assert trigger.batch_size * sum(TIMEOUT_S) < worker.timeout_s
    (refunds,) = [one for one in SERVICE.functions if one.name == "refunds"]
    # Asked twice.
    assert 2 * sum(TIMEOUT_S) < refunds.timeout_s


def test_stream_and_queue_call_relay_and_worker(app: Synthesised) -> None:
    """Stream and queue of the reference service call relay and worker, in batches that are partly
    answered, and what the relay gives up goes to a queue of its own.
    """
    mappings = {
        called(mapping["FunctionName"]): mapping
        for mapping in app.properties("AWS::Lambda::EventSourceMapping")
    }

    assert len(mappings) == 2
    assert all(
        mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        for mapping in mappings.values()
    )
    relay, worker = (mappings[name] for name in ("OutboxRelayFunction", "OutboxWorkerFunction"))
    assert "OutboxTable" in json.dumps(relay["EventSourceArn"])
    assert "EscalatedQueue" in json.dumps(relay["DestinationConfig"])
    assert "PaymentsQueue" in json.dumps(worker["EventSourceArn"])
