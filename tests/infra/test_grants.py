"""Who may do what: each role of the reference service, and no more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from infra.oncekey_cdk.described.names import pascal
from infra.oncekey_cdk.grants import ALARM_ACTIONS, SECRET_ACTIONS
from infra.service import SERVICE
from oncekey.store.dynamodb.pauses import PAUSES_KEY
from oncekey_local.description.actions import (
    RECEIVE_ACTIONS,
    RELAY_ACTIONS,
    RESERVE_ACTIONS,
    SEND_ACTIONS,
    STREAM_ACTIONS,
)
from tests.support.sample_templates import below_the_arn, named

if TYPE_CHECKING:
    from tests.support.templates import Synthesised

# Logical ids end with a hash.
EXPORTED_ARN = re.compile(r"FnGetAtt(?P<resource>\w+?)[0-9A-F]{8}(?P<arn>StreamArn|Arn)")
# A deployment has its own secrets; six characters that nobody knows follow their names.
SECRET = re.compile(r":secret:oncekey/payments-(?:dev|production)/(?P<name>[a-z-]+)-\?{6}")
Grants = set[tuple[tuple[str, ...], str]]

BUCKET_GRANTS: Grants = {
    (("s3:PutObject", "s3:GetObject"), "ResponsesBucketArn/*"),
    (("s3:ListBucket",), "ResponsesBucketArn"),
}
ASKS_THE_PROVIDER = (SECRET_ACTIONS, "ProviderApiKeySecretArn")
GRANTS: dict[str, Grants] = {
    "payments": {
        (RESERVE_ACTIONS, "IdempotencyTableArn"),
        (("dynamodb:GetItem", "dynamodb:PutItem"), "PaymentsTableArn"),
        (("dynamodb:PutItem",), "OutboxTableArn"),
        *BUCKET_GRANTS,
    },
    "refunds": {
        (RESERVE_ACTIONS, "IdempotencyTableArn"),
        (("dynamodb:GetItem",), "PaymentsTableArn"),
        (("dynamodb:PutItem",), "RefundsTableArn"),
        ASKS_THE_PROVIDER,
        *BUCKET_GRANTS,
    },
    "reports": {
        (RESERVE_ACTIONS, "IdempotencyTableArn"),
        (("dynamodb:PutItem",), "OutboxTableArn"),
        (("dynamodb:GetItem",), "ReportsTableArn"),
        *BUCKET_GRANTS,
    },
    "webhooks": {
        (RESERVE_ACTIONS, "IdempotencyTableArn"),
        (("dynamodb:PutItem",), "OutboxTableArn"),
        (SECRET_ACTIONS, "WebhookSecretSecretArn"),
    },
    "operations": {
        (("dynamodb:GetItem",), "IdempotencyTableArn"),
        (("s3:GetObject",), "ResponsesBucketArn/*"),
        (("s3:ListBucket",), "ResponsesBucketArn"),
    },
    "outbox-relay": {
        (RELAY_ACTIONS, "OutboxTableArn"),
        (STREAM_ACTIONS, "OutboxTableStreamArn"),
        (SEND_ACTIONS, "PaymentsQueueArn"),
        (SEND_ACTIONS, "EscalatedQueueArn"),
    },
    "outbox-worker": {
        (RESERVE_ACTIONS, "IdempotencyTableArn"),
        (("dynamodb:GetItem", "dynamodb:UpdateItem"), "PaymentsTableArn"),
        (("dynamodb:PutItem",), "RefundsTableArn"),
        (("dynamodb:PutItem",), "ReportsTableArn"),
        *BUCKET_GRANTS,
        (RECEIVE_ACTIONS, "PaymentsQueueArn"),
        ASKS_THE_PROVIDER,
    },
    "reconciler": {
        (("dynamodb:Query",), "IdempotencyTableArn/index/due"),
        (RESERVE_ACTIONS, "IdempotencyTableArn"),
        (("dynamodb:PutItem",), "RefundsTableArn"),
        ((*RELAY_ACTIONS, "dynamodb:PutItem", "dynamodb:Scan"), "OutboxTableArn"),
        (SEND_ACTIONS, "PaymentsQueueArn"),
        (SEND_ACTIONS, "EscalatedQueueArn"),
        ASKS_THE_PROVIDER,
        *BUCKET_GRANTS,
    },
    "ledger": {
        (("dynamodb:Scan",), "PaymentsTableArn"),
        (("dynamodb:Scan",), "RefundsTableArn"),
        (("s3:PutObject",), "ResponsesBucketArn/reports/*"),
        ASKS_THE_PROVIDER,
        (SEND_ACTIONS, "EscalatedQueueArn"),
    },
}


def actions_of(statement: dict[str, Any]) -> tuple[str, ...]:
    """What a statement allows; the CDK writes a single action without a list."""
    action = statement["Action"]
    return (action,) if isinstance(action, str) else tuple(action)


def grants(app: Synthesised, function: str) -> Grants:
    """What a function may do to what of the stateful stack: its resources by logical id and ARN."""
    policy = named(app.service, "AWS::IAM::Policy", f"{pascal(function)}RoleDefaultPolicy")
    found: Grants = set()
    for one in policy["PolicyDocument"]["Statement"]:
        if one["Effect"] == "Deny":
            continue
        actions = actions_of(one)
        several = isinstance(one["Resource"], list)
        for resource in one["Resource"] if several else [one["Resource"]]:
            arn = EXPORTED_ARN.search(str(resource))
            if arn:
                found.add((actions, arn["resource"] + arn["arn"] + below_the_arn(resource)))
            secret = SECRET.search(str(resource))
            if secret:
                found.add((actions, f"{pascal(secret['name'])}SecretArn"))
    return found


def test_every_role_may_do_exactly_this(app: Synthesised) -> None:
    """Each function reaches the tables, queues and objects that its code calls, by those calls.

    The API can neither send to the queue nor write reports; the worker can neither add payments nor
    send; the relay can read no table, and who shows operations can write nowhere. Who compares the
    ledgers can change neither them nor an answer.
    """
    assert {one.name for one in SERVICE.functions} == set(GRANTS)
    for function, expected in GRANTS.items():
        assert grants(app, function) == expected, function


def test_who_writes_records_can_only_read_what_is_paused(app: Synthesised) -> None:
    """A fault in a function, or a leaked role of one, ends no pause: that is an operator's to do.

    Red when a role may write records, and its policy does not forbid the item of the pauses.
    """
    for function, allowed in GRANTS.items():
        policy = named(app.service, "AWS::IAM::Policy", f"{pascal(function)}RoleDefaultPolicy")
        denials = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
        if (RESERVE_ACTIONS, "IdempotencyTableArn") not in allowed:
            assert denials == [], function
            continue
        (denial,) = denials
        assert set(actions_of(denial)) == {*RESERVE_ACTIONS} - {"dynamodb:GetItem"}
        assert denial["Condition"] == {
            "ForAnyValue:StringEquals": {"dynamodb:LeadingKeys": [PAUSES_KEY]}
        }


def test_every_role_logs_and_traces_and_no_more(app: Synthesised) -> None:
    """Beside its grants a role writes to its own log group, and traces."""
    for function in GRANTS:
        policy = named(app.service, "AWS::IAM::Policy", f"{pascal(function)}RoleDefaultPolicy")
        statements = policy["PolicyDocument"]["Statement"]
        others = [
            one
            for one in statements
            if not EXPORTED_ARN.search(str(one["Resource"]))
            and not SECRET.search(str(one["Resource"]))
        ]

        logs, traces = others
        assert logs["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
        assert logs["Resource"]["Fn::GetAtt"][0].startswith(f"{pascal(function)}Logs")
        assert traces["Action"] == ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]


def test_no_managed_policy_widens_a_role(app: Synthesised) -> None:
    """Each function and CodeDeploy has a role with its own policy and no managed one."""
    others = 1 if app.stage == "production" else 0
    app.service.resource_count_is("AWS::IAM::Role", len(SERVICE.functions) + others)
    for role in app.properties("AWS::IAM::Role"):
        assert "ManagedPolicyArns" not in role
        assert "Policies" not in role


def test_no_grant_has_a_wildcard(app: Synthesised) -> None:
    """Nothing is granted on a wildcard, but the objects of one bucket or folder, X-Ray, which knows
    no resources to name, and the question to CloudWatch whether an alarm is on.
    """
    wide = [
        one
        for one in app.statements()
        if "*" in json.dumps(one["Resource"]) or any("*" in action for action in actions_of(one))
    ]

    assert {actions_of(one) for one in wide} == {
        ("s3:PutObject", "s3:GetObject"),
        ("s3:GetObject",),
        ("s3:PutObject",),
        ("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
        *((ALARM_ACTIONS,) if app.stage == "production" else ()),
    }
    for one in wide:
        if "s3:GetObject" in actions_of(one):
            assert below_the_arn(one["Resource"]) == "/*"
        elif "s3:PutObject" in actions_of(one):
            assert below_the_arn(one["Resource"]) == "/reports/*"
