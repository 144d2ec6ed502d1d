"""Checks that no piece is missing in the finished templates: tables, workers, reconcilers.

A missing piece is found only by looking at all templates of an app. If a template does not say
enough (an imported role, another app's queue), nothing is reported.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from oncekey.settings import DUE_SHARDS
from oncekey.store.dynamodb.schema import (
    DUE_INDEX,
    DUE_PARTITION_KEY,
    DUE_SORT_KEY,
    IDEMPOTENCY,
    OUTBOX,
)
from oncekey_operator.template_reading import (
    Resource,
    Templates,
    is_unknown,
    listed,
    mapping,
    number,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    Fault = tuple[Resource, str, str]

WIRING_RULES = (
    "TableSchema",
    "FunctionTable",
    "TableGrant",
    "Reconciler",
    "Outbox",
    "OneWorker",
    "Concurrency",
    "PlainSecret",
)
# The metadata key of a function that was created to run protected handlers.
PROTECTED = "oncekey:protected"

_FUNCTION, _SOURCE = "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"
_TABLES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
_SECRETS = ("ONCEKEY_WEBHOOK_SECRET", "ONCEKEY_FINGERPRINT_SECRETS")
_RESOLVED = ("{{resolve:secretsmanager:", "{{resolve:ssm-secure:")


def wiring(app: Templates) -> Iterator[Fault]:
    """Every piece of an app that is missing, or is there twice."""
    for table in app.of_kind(*_TABLES):
        yield from _of_table(app, table)
    for function in app.of_kind(_FUNCTION):
        yield from _of_function(app, function)
    for queue in app.of_kind("AWS::SQS::Queue"):
        yield from _of_queue(app, queue)


def _of_table(app: Templates, table: Resource) -> Iterator[Fault]:
    users = _users(app, table, "ONCEKEY_TABLE")
    if users:
        needs_index = any(one.variables.get("ONCEKEY_DUE_SHARDS") != "0" for one in users)
        for fault in _record_schema_faults(table, needs_index=needs_index):
            yield table, "TableSchema", fault
        is_told = all(_role_of(app, one) is not None for one in users)
        if needs_index and is_told and not _is_reconciled(app, table):
            yield (
                table,
                "Reconciler",
                (
                    "no function may query its due records, so unknown and half-done operations"
                    " stay so forever and nobody is told: create a Reconciler(table=...)"
                ),
            )
        for fault in _shard_faults(app, table, users):
            yield table, "Reconciler", fault
    if _users(app, table, "ONCEKEY_OUTBOX_TABLE"):
        for fault in _outbox_schema_faults(table):
            yield table, "TableSchema", fault
        sources = [app.referred(one, _source_of(one)) for one in app.of_kind(_SOURCE)]
        if table not in sources and not _has_unknown_sources(app):
            yield (
                table,
                "Outbox",
                "it has no relay, so its messages are never sent: use Outbox, or give it one",
            )


def _users(app: Templates, table: Resource, variable: str) -> list[Resource]:
    return [
        function
        for function in app.of_kind(_FUNCTION)
        if app.referred(function, function.variables.get(variable)) == table
    ]


def _source_of(source: Resource) -> Any:
    return source.properties.get("EventSourceArn")


def _has_unknown_sources(app: Templates) -> bool:
    return any(
        is_unknown(_source_of(one)) and app.referred(one, _source_of(one)) is None
        for one in app.of_kind(_SOURCE)
    )


def _keys(table: Resource, written: Any) -> list[tuple[Any, Any, Any]] | None:
    """The keys of a table or index, with types; None if only the deployment knows them."""
    attributes = map(mapping, listed(table.properties.get("AttributeDefinitions")))
    types = {str(one.get("AttributeName")): one.get("AttributeType") for one in attributes}
    keys = [mapping(one) for one in listed(written)]
    found = [
        (one.get("AttributeName"), one.get("KeyType"), types.get(str(one.get("AttributeName"))))
        for one in keys
    ]
    is_known = found and all(isinstance(part, str) for one in found for part in one)
    return found if is_known else None


def _record_schema_faults(table: Resource, *, needs_index: bool) -> Iterator[str]:
    keys = _keys(table, table.properties.get("KeySchema"))
    if keys is not None and keys != [(IDEMPOTENCY.partition_key, "HASH", "S")]:
        yield "records need the partition key pk (S) and no sort key, and it has another key"
    ttl = table.properties.get("TimeToLiveSpecification", {})
    if isinstance(ttl, dict) and (not ttl or "AttributeName" in ttl):
        is_on = (
            ttl.get("Enabled") is not False
            and ttl.get("AttributeName") == IDEMPOTENCY.ttl_attribute
        )
        if not is_on and not is_unknown(ttl.get("AttributeName")):
            yield "records expire by TTL on expires_at, and it has no TTL on that attribute"
    indexes = table.properties.get("GlobalSecondaryIndexes", [])
    is_known = isinstance(indexes, list) and all(
        isinstance(one, dict) and isinstance(one.get("IndexName"), str) for one in indexes
    )
    if needs_index and is_known:
        due = [one for one in indexes if one["IndexName"] == DUE_INDEX]
        keys = _keys(table, due[0].get("KeySchema")) if due else []
        wanted = [(DUE_PARTITION_KEY, "HASH", "S"), (DUE_SORT_KEY, "RANGE", "N")]
        if keys not in (None, wanted):
            yield (
                "a reconciler finds records by the index due (due_shard S, due_at N), and it does"
                " not have that index"
            )
    if len(listed(table.properties.get("Replicas"))) > 1:
        yield "a condition sees one Region's copy only, so two Regions could both run a request"


def _outbox_schema_faults(table: Resource) -> Iterator[str]:
    keys = _keys(table, table.properties.get("KeySchema"))
    if keys is not None and keys != [(OUTBOX.partition_key, "HASH", "S")]:
        yield "messages need the partition key id (S) and no sort key, and it has another key"
    stream = mapping(table.properties.get("StreamSpecification"))
    view = stream.get("StreamViewType", "" if not stream else None)
    if isinstance(view, str) and "NEW" not in view:
        yield "a relay needs the new item in the stream, and the stream does not have it"
    if mapping(table.properties.get("TimeToLiveSpecification")).get("Enabled") is True:
        yield "its TTL would delete messages that are not sent yet"


def _is_reconciled(app: Templates, table: Resource, role: Resource | None = None) -> bool:
    """Whether any role, or this one, may query the due records of a table."""
    return any(
        "dynamodb:Query" in _allowed(statement, "dynamodb:Query")
        and _reaches(app, policy, statement, table)
        and (role is None or _is_of(app, policy, role))
        for policy, statement in _statements(app)
    )


def _shard_faults(app: Templates, table: Resource, users: list[Resource]) -> Iterator[str]:
    """The fault of functions that use more shards than any reconciler of the table reads."""
    shards = {one: number(one.variables.get("ONCEKEY_DUE_SHARDS"), DUE_SHARDS) for one in users}
    read = [
        shards[one]
        for one in users
        if (role := _role_of(app, one)) is not None and _is_reconciled(app, table, role)
    ]
    if not read or None in read:
        return
    most = max(DUE_SHARDS, *(one for one in read if one is not None))
    for function, used in shards.items():
        if used is not None and used > most:
            yield (
                f"{function.name} has ONCEKEY_DUE_SHARDS {used}, and its reconciler reads {most}:"
                " records in the others are never found, so unknown and half-done operations stay"
                " so forever. Give the reconciler the same number (environment=)"
            )


def _statements(app: Templates) -> Iterator[tuple[Resource, dict[str, Any]]]:
    """Every statement that allows something, with its policy."""
    for policy in app.of_kind("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        yield from _of_document(policy, policy.properties.get("PolicyDocument"))
    for role in app.of_kind("AWS::IAM::Role"):
        for inline in listed(role.properties.get("Policies")):
            yield from _of_document(role, mapping(inline).get("PolicyDocument"))


def _of_document(policy: Resource, document: Any) -> Iterator[tuple[Resource, dict[str, Any]]]:
    written = mapping(document).get("Statement")
    for statement in [written] if isinstance(written, dict) else listed(written):
        if mapping(statement).get("Effect", "Allow") != "Deny":
            yield policy, mapping(statement)


def _allowed(statement: dict[str, Any], *actions: str) -> set[str]:
    """Which of the actions a statement allows; all if only the deployment knows."""
    written = statement.get("Action")
    if is_unknown(written) or any(is_unknown(one) for one in listed(written)):
        return {*actions}
    return {
        action
        for action in actions
        for one in texts(written)
        # IAM looks at no case, and a wildcard may stand anywhere.
        if fnmatchcase(action.lower(), one.lower())
    }


def _reaches(app: Templates, policy: Resource, statement: dict[str, Any], table: Resource) -> bool:
    """Whether a statement names the table or its index, or may do so."""
    written = statement.get("Resource")
    for one in listed(written) or [written]:
        if isinstance(one, str):
            if "*" in one or _names_table(one, table):
                return True
            continue
        found = app.mentioned(policy, one)
        if table in found or (not found and is_unknown(one)):
            return True
    return False


def _names_table(arn: str, table: Resource) -> bool:
    """Whether an ARN that is written out is that of a table with this name, or of its index."""
    return arn.partition(":table/")[2].partition("/")[0] == table.properties.get("TableName")


def _of_function(app: Templates, function: Resource) -> Iterator[Fault]:
    variables = function.variables
    sources = [
        app.referred(one, _source_of(one))
        for one in app.of_kind(_SOURCE)
        if app.referred(one, one.properties.get("FunctionName")) == function
    ]
    if PROTECTED in function.metadata and isinstance(
        mapping(function.properties.get("Environment")).get("Variables", {}), dict
    ):
        is_relay = {"ONCEKEY_OUTBOX_TABLE", "ONCEKEY_QUEUE_URL"} <= variables.keys() or any(
            one is not None and one.kind in _TABLES for one in sources
        )
        if not variables.get("ONCEKEY_TABLE") and not is_relay:
            yield (
                function,
                "FunctionTable",
                (
                    "it has no table, so its protected handlers raise at the first request: pass"
                    " table=, or acknowledge this rule"
                ),
            )
    table = app.referred(function, variables.get("ONCEKEY_TABLE"))
    if table is not None and table.kind in _TABLES and _has_no_grant(app, function, table):
        yield (
            function,
            "TableGrant",
            (
                f"its role has no access to the table {table.name} that ONCEKEY_TABLE names: call"
                " grant_reserve(function) of the table"
            ),
        )
    yield from _concurrency(app, function)
    for name in _plain_secrets(variables):
        yield (
            function,
            "PlainSecret",
            (
                f"the variable {name} holds a secret. Everyone who may read the function's"
                " configuration can read it, and to rotate it needs a deployment: let the function"
                " read it at run time (function.read_secret)"
            ),
        )


def _plain_secrets(variables: dict[str, Any]) -> Iterator[str]:
    for name, value in variables.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if (name in _SECRETS and value) or any(one in text for one in _RESOLVED):
            yield name


def _has_no_grant(app: Templates, function: Resource, table: Resource) -> bool:
    role = _role_of(app, function)
    if role is None:
        return False
    managed = role.properties.get("ManagedPolicyArns", [])
    if not isinstance(managed, list) or any(_may_grant(one) for one in managed):
        return False
    return not any(
        _allowed(statement, "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
        and _reaches(app, policy, statement, table)
        for policy, statement in _statements(app)
        if _is_of(app, policy, role)
    )


def _role_of(app: Templates, function: Resource) -> Resource | None:
    """The role of a function; None if it is not in these templates, and so not what it may do."""
    role = app.referred(function, function.properties.get("Role"))
    return role if role is not None and role.kind == "AWS::IAM::Role" else None


def _may_grant(managed_policy: Any) -> bool:
    # Lambda's own managed policies give no access to a table.
    return "service-role/AWSLambda" not in json.dumps(managed_policy)


def _is_of(app: Templates, policy: Resource, role: Resource) -> bool:
    if policy == role:
        return True
    roles = policy.properties.get("Roles")
    return is_unknown(roles) or any(
        app.referred(policy, one) in (role, None) for one in listed(roles)
    )


def _concurrency(app: Templates, function: Resource) -> Iterator[Fault]:
    reserved = number(function.properties.get("ReservedConcurrentExecutions"))
    if reserved is None:
        return
    wanted = [
        number(mapping(one.properties.get("ScalingConfig")).get("MaximumConcurrency"))
        for one in app.of_kind(_SOURCE)
        if app.referred(one, one.properties.get("FunctionName")) == function
    ]
    most = sum(one for one in wanted if one is not None)
    if reserved < most:
        yield (
            function,
            "Concurrency",
            (
                f"its reserved concurrency of {reserved} is below the {most} batches that its"
                " queues deliver at once (max_concurrency). The others are refused and use up"
                " receives of their messages: reserve more, or lower max_concurrency"
            ),
        )


def _of_queue(app: Templates, queue: Resource) -> Iterator[Fault]:
    workers = [one for one in app.of_kind(_SOURCE) if app.referred(one, _source_of(one)) == queue]
    for second in workers[1:]:
        yield (
            second,
            "OneWorker",
            (
                f"the queue {queue.name} already has a worker ({workers[0].name}), and each message"
                " reaches one of the two, by chance: let one worker handle all topics"
                " (oncekey.outbox.Topics), or give each a queue of its own"
            ),
        )
    if not workers and _is_relayed_to(app, queue) and not _has_unknown_sources(app):
        yield (
            queue,
            "Outbox",
            "an outbox sends messages to it, and it has no worker: call outbox.add_worker(...)",
        )


def _is_relayed_to(app: Templates, queue: Resource) -> bool:
    relays = {
        app.referred(one, one.properties.get("FunctionName"))
        for one in app.of_kind(_SOURCE)
        if getattr(app.referred(one, _source_of(one)), "kind", None) in _TABLES
    }
    return any(
        function in relays
        and "ONCEKEY_OUTBOX_TABLE" in function.variables
        and app.referred(function, function.variables.get("ONCEKEY_QUEUE_URL")) == queue
        for function in app.of_kind(_FUNCTION)
    )
