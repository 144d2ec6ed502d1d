"""`oncekey doctor`: each fault of a table, a function or a clock is found."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from oncekey.store.dynamodb.schema import IDEMPOTENCY, OUTBOX
from oncekey_local import cli
from oncekey_operator.diagnosis.checks import Finding, findings
from oncekey_operator.diagnosis.facts import Asking, Facts, utc_now
from oncekey_operator.diagnosis.functions import FunctionFacts
from oncekey_operator.targets import Target
from tests.support.aws_engine import mocked_aws
from tests.support.dynamodb import deny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

RECORDS, MESSAGES = "records-to-examine", "messages-to-examine"
REGION = "eu-central-1"
RECORD = "v1#" + "A" * 43


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[DynamoDBClient]:
    """A client of moto, without tables."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mocked_aws():
        yield boto3.client("dynamodb", region_name=REGION)


def make_tables(
    client: DynamoDBClient,
    *,
    ttl_by: str = "expires_at",
    records: dict[str, Any] | None = None,
    messages: dict[str, Any] | None = None,
) -> None:
    """The two tables; some of their parameters may be wrong."""
    client.create_table(**{**IDEMPOTENCY.create_request(RECORDS), **(records or {})})
    client.create_table(**{**OUTBOX.create_request(MESSAGES), **(messages or {})})
    if ttl_by:
        client.update_time_to_live(
            TableName=RECORDS,
            TimeToLiveSpecification={"AttributeName": ttl_by, "Enabled": True},
        )


def asked(
    client: DynamoDBClient,
    *,
    now: Callable[[], datetime] = utc_now,
    table: str = RECORDS,
    stacks: tuple[str, ...] = (),
    namespace: str = "",
) -> Facts:
    """The facts about the tables, by this client."""
    target = Target(table=table, outbox_table=MESSAGES, region=REGION)
    # The property's value, so that the calls of this client are those that are denied.
    target.__dict__["dynamodb"] = client
    asking = Asking(target, now=now)
    return asking.facts(functions=(), stacks=stacks, namespace=namespace, most_items=100)


def faults(facts: Facts) -> set[str]:
    """What the faults are about."""
    return {one.check for one in findings(facts) if one.level == "fault"}


def no_index(client: DynamoDBClient) -> None:
    """A table that somebody made by hand."""
    request = IDEMPOTENCY.create_request(RECORDS)
    keys = [each for each in request["AttributeDefinitions"] if each["AttributeName"] == "pk"]
    client.create_table(
        TableName=RECORDS,
        KeySchema=request["KeySchema"],
        AttributeDefinitions=keys,
        BillingMode="PAY_PER_REQUEST",
    )
    client.create_table(**OUTBOX.create_request(MESSAGES))


def wrong_key(client: DynamoDBClient) -> None:
    """The key of the outbox table instead of the records'."""
    keys = {
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"},
            *IDEMPOTENCY.create_request(RECORDS)["AttributeDefinitions"][1:],
        ],
    }
    make_tables(client, records=keys)


def outbox_ttl(client: DynamoDBClient) -> None:
    """A TTL that deletes messages before they are sent."""
    make_tables(client)
    client.update_time_to_live(
        TableName=MESSAGES,
        TimeToLiveSpecification={"AttributeName": "created_at", "Enabled": True},
    )


def denied(client: DynamoDBClient) -> None:
    """A role that may not write."""
    make_tables(client)
    deny(client, "PutItem")


def read_only(client: DynamoDBClient) -> None:
    """The role of a person who looks."""
    make_tables(client)
    for operation in ("PutItem", "UpdateItem", "DeleteItem"):
        deny(client, operation)


def foreign_item(client: DynamoDBClient) -> None:
    """An item of another program."""
    make_tables(client)
    client.put_item(TableName=RECORDS, Item={"pk": {"S": "customer-17"}})


def no_expiry(client: DynamoDBClient) -> None:
    """A settled record that nothing will delete."""
    make_tables(client)
    client.put_item(TableName=RECORDS, Item={"pk": {"S": RECORD}, "status": {"S": "COMPLETED"}})


def overdue(client: DynamoDBClient) -> None:
    """A record that no reconciler has visited for an hour."""
    make_tables(client)
    hour_ago_ms = int((utc_now() - timedelta(hours=1)).timestamp() * 1000)
    due = {"due_shard": {"S": "3"}, "due_at": {"N": str(hour_ago_ms)}}
    client.put_item(
        TableName=RECORDS, Item={"pk": {"S": RECORD}, "status": {"S": "UNKNOWN"}, **due}
    )


@pytest.mark.parametrize(
    ("set_up", "found"),
    [
        (make_tables, set[str]()),
        (wrong_key, {"table: key"}),
        (no_index, {"index", "table: TTL"}),
        (lambda client: make_tables(client, ttl_by=""), {"table: TTL"}),
        (lambda client: make_tables(client, ttl_by="ttl"), {"table: TTL"}),
        (
            lambda client: make_tables(client, messages={"StreamSpecification": NO_STREAM}),
            {"outbox: stream"},
        ),
        (outbox_ttl, {"outbox: TTL"}),
        (denied, {"permissions"}),
        (read_only, set[str]()),
        (foreign_item, {"items"}),
        (no_expiry, {"items"}),
        (overdue, {"reconciler"}),
    ],
    ids=[
        *("healthy", "another key", "no index", "no TTL", "another TTL", "no stream"),
        *(
            "outbox expires",
            "denied",
            "may only read",
            "foreign item",
            "no expiry",
            "reconciler off",
        ),
    ],
)
def test_each_fault_of_the_tables_is_found(
    set_up: Callable[[DynamoDBClient], None], found: set[str], client: DynamoDBClient
) -> None:
    """It is the only fault that is reported, and healthy tables have none."""
    set_up(client)
    facts = asked(client)

    # Here the relay's event source is another subject: moto knows none.
    assert faults(replace(facts, relays=None)) == found


NO_STREAM: dict[str, Any] = {"StreamEnabled": False}


def test_what_was_tried_has_changed_nothing(client: DynamoDBClient) -> None:
    """The tables are empty before and after."""
    make_tables(client)

    asked(client)

    assert client.scan(TableName=RECORDS)["Items"] == []
    assert client.scan(TableName=MESSAGES)["Items"] == []


def test_a_table_that_is_not_there_is_a_fault_with_advice(client: DynamoDBClient) -> None:
    """Nothing else is asked then."""
    facts = asked(client, table="recrods")

    (fault,) = [one for one in findings(facts) if one.level == "fault"]
    assert "there is no table recrods" in fault.found
    assert "Region" in fault.advice


@pytest.fixture(scope="module")
def healthy() -> Facts:
    """The facts about healthy tables."""
    with pytest.MonkeyPatch.context() as variables, mocked_aws():
        variables.setenv("AWS_ACCESS_KEY_ID", "testing")
        variables.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        client = boto3.client("dynamodb", region_name=REGION)
        make_tables(client)
        return replace(asked(client), relays=None)


def function(timeout_s: int = 20, **variables: str) -> FunctionFacts:
    """A function on this table."""
    return FunctionFacts(
        name="pay", timeout_s=timeout_s, variables={"ONCEKEY_TABLE": RECORDS, **variables}
    )


@pytest.mark.requirement("B13")
def test_each_fault_of_functions_leases_and_clocks_is_found(healthy: Facts) -> None:
    """The same facts, with one of them wrong each time: a lease that the slowest handlers (p99)
    use up is among them.

    Red when one of these faults is not reported, or another one is.
    """
    off = {"State": "Disabled"}
    failing = {"State": "Enabled", "LastProcessingResult": "PROBLEM: Function call failed"}
    sse = {"InaccessibleEncryptionDateTime": datetime(2026, 1, 1, tzinfo=UTC)}
    unreadable = {**(healthy.records.description or {}), "SSEDescription": sse}
    wrong = {
        "clock": replace(healthy, ahead_s=6.5),
        "outbox: relay": replace(healthy, relays=[off]),
        "dead letters": replace(healthy, dead_letters=3),
        "escalations": replace(healthy, escalated=1),
        "function pay": replace(healthy, functions=[function(ONCEKEY_TABLE="old")]),
        "lease of POST /payments": replace(healthy, lease_used={"POST /payments": 104.0}),
        "table: encryption": replace(
            healthy, records=replace(healthy.records, description=unreadable)
        ),
    }

    assert faults(healthy) == set()
    for check, facts in wrong.items():
        assert faults(facts) == {check}
    assert faults(replace(healthy, relays=[failing])) == {"outbox: relay"}
    for state in ("Creating", "Enabling", "Updating"):  # a deployment is in progress
        assert faults(replace(healthy, relays=[{"State": state}])) == set()
    slow = function(timeout_s=3, ONCEKEY_STORE_TIMEOUT_MS="1500")
    assert faults(replace(healthy, functions=[slow])) == {"function pay"}


@pytest.mark.parametrize(
    ("every_s", "overdue_s", "found"),
    [(60, 170, 0), (60, 190, 1), (300, 190, 0), (1, 29, 0), (1, 31, 1), (0, 0, 1)],
)
def test_a_stopped_reconciler_is_found_after_three_missed_runs(
    healthy: Facts, every_s: float, overdue_s: float, found: int
) -> None:
    """By its own schedule, and at once if it has none."""
    facts = replace(healthy, reconciler_every_s=every_s, overdue_s=overdue_s)

    assert len(faults(facts) & {"reconciler"}) == found


def test_a_switched_off_schedule_or_function_is_found(healthy: Facts) -> None:
    """Also while no record is due, and nothing shows that the reconciler is off."""
    rules = {"every-minute": "DISABLED", "daily": "ENABLED"}
    assert faults(replace(healthy, rules=rules)) == {"schedule every-minute"}

    stopped = replace(function(), is_stopped=True)
    assert faults(replace(healthy, functions=[stopped])) == {"function pay"}


def test_a_function_of_a_stack_that_does_not_use_the_layer_is_not_judged(healthy: Facts) -> None:
    """It calls no store and has no shards, and the default timeout of Lambda is 3 s. A function
    that a person names is judged, because its code may set what its variables do not.

    Red when it is said to be killed before it records an end, or to need an index.
    """
    other = FunctionFacts(name="thumbnails", timeout_s=3, variables={"LEVEL": "1"})
    relay = FunctionFacts(name="relay", timeout_s=60, variables={"ONCEKEY_OUTBOX_TABLE": MESSAGES})
    description = {**(healthy.records.description or {}), "GlobalSecondaryIndexes": []}
    no_index = replace(healthy, records=replace(healthy.records, description=description))
    with_64, with_0 = function(ONCEKEY_DUE_SHARDS="64"), function(ONCEKEY_DUE_SHARDS="0")

    found = findings(replace(healthy, functions=[with_64, relay, other]))
    assert [one for one in found if one.level != "ok"] == findings_of_health(healthy)
    assert faults(replace(no_index, functions=[with_0, relay, other])) == set()
    named = replace(other, is_named=True)
    assert faults(replace(healthy, functions=[named])) == {"function thumbnails"}


def findings_of_health(healthy: Facts) -> list[Finding]:
    """What is said of these tables whatever the functions are."""
    return [one for one in findings(healthy) if one.level != "ok"]


def test_the_rules_and_functions_of_a_stack_are_asked(client: DynamoDBClient) -> None:
    """Each rule's state is known, and whether a function's reserved concurrency is 0."""
    make_tables(client)
    rule = {
        "Type": "AWS::Events::Rule",
        "Properties": {
            "Name": "minute",
            "ScheduleExpression": "rate(1 minute)",
            "State": "DISABLED",
        },
    }
    template = json.dumps({"Resources": {"Rule": rule}})
    cloudformation = Target(table=RECORDS, region=REGION).client("cloudformation")
    cloudformation.create_stack(StackName="reconciler", TemplateBody=template)

    facts = asked(client, stacks=("reconciler",))

    assert facts.rules == {"minute": "DISABLED"}


def test_a_resource_that_has_no_name_yet_is_passed_over(
    client: DynamoDBClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack that is being deployed, or failed to be, has such resources. The doctor looks at the
    others, because then it is needed most.
    """
    make_tables(client)
    listed = [
        {"ResourceType": "AWS::Lambda::Function", "ResourceStatus": "CREATE_IN_PROGRESS"},
        {"ResourceType": "AWS::Events::Rule", "ResourceStatus": "CREATE_FAILED"},
    ]
    monkeypatch.setattr(Asking, "_listed", lambda *_: listed)

    facts = asked(client, stacks=("half-deployed",))

    assert (facts.functions, facts.rules) == ((), {})


def test_leases_are_those_of_the_services_that_are_examined(
    client: DynamoDBClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services of one account share a namespace: another's operation of the same name says nothing
    of this one. All pages are read.

    Red when the service is not compared, or one page is read.
    """
    make_tables(client)
    here = {"ONCEKEY_METRICS_SERVICE": "payments"}
    ours = FunctionFacts(name="pay", timeout_s=30, variables=here)
    monkeypatch.setattr(Asking, "_functions", lambda *_: [ours])
    cloudwatch = boto3.client("cloudwatch", region_name=REGION)
    monkeypatch.setattr(Target, "client", _or(cloudwatch, of="cloudwatch", other=Target.client))
    name = {"Name": "operation", "Value": "POST /payments"}
    sets = [[{"Name": "service", "Value": each}, name] for each in ("payments", "refunds")]
    with Stubber(cloudwatch) as stub:
        for page, after in enumerate(["more", None]):
            stub.add_response(
                "list_metrics",
                {
                    "Metrics": [{"MetricName": "LeaseUsed", "Dimensions": sets[page]}],
                    **({"NextToken": after} if after else {}),
                },
            )
        stub.add_response(
            "get_metric_statistics",
            {"Datapoints": [{"ExtendedStatistics": {"p99": 42.0}}]},
            {
                **dict.fromkeys(("StartTime", "EndTime", "Period", "ExtendedStatistics"), ANY),
                "Namespace": "oncekey",
                "MetricName": "LeaseUsed",
                "Dimensions": sets[0],
            },
        )
        facts = asked(client, namespace="oncekey")
        stub.assert_no_pending_responses()

    assert facts.lease_used == {"POST /payments": 42.0}


def _or(client: object, *, of: str, other: Callable[..., object]) -> Callable[..., object]:
    return lambda target, service: client if service == of else other(target, service)


def test_the_clock_is_compared_with_the_date_of_the_answers(client: DynamoDBClient) -> None:
    """A machine whose clock is a minute ahead is told so."""
    make_tables(client)

    facts = asked(client, now=lambda: utc_now() + timedelta(minutes=1))

    assert "clock" in faults(facts)


def test_the_command_prints_the_faults_and_exits_with_1(
    client: DynamoDBClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """For programs, each finding has the level, the check, what was found and what to do."""
    make_tables(client, ttl_by="")

    status = cli.main(["doctor", "--table", RECORDS, "--region", REGION, "--json"])

    found = json.loads(capsys.readouterr().out)
    assert status == 1
    assert found["faults"] == 1
    assert found["findings"][0]["check"] == "table: TTL"
    assert cli.main(["doctor", "--table", RECORDS, "--region", REGION]) == 1
    said = capsys.readouterr()
    assert "Nothing is changed." in said.err
    assert "1 fault," in said.out
    assert "expires_at" in found["findings"][0]["advice"]
