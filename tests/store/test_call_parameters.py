"""Every call to AWS that the layer can make says exactly what the tables of literals say.

What a call asks for can then not change unseen; one that is new is missing there, and a test says
so.
"""

from __future__ import annotations

import ast
import inspect
import platform
import random
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

import oncekey
from oncekey import DynamoDBStore
from oncekey.effects.outbox import kept_apart
from oncekey.outbox import inbox
from oncekey.record.commit import token
from oncekey.record.stored_answer import StoredRef, place_answer, place_result
from oncekey.record.transitions import Reserve
from oncekey.store import secrets_manager
from oncekey.store.dynamodb.expressions import put_parameters, update_parameters
from oncekey.store.dynamodb.outbox import OutboxTable
from oncekey.store.s3 import ResponseBucket
from oncekey.store.sqs import SqsQueue
from tests.support.call_rows import ROWS, Row
from tests.support.call_world import call_world
from tests.support.due_rows import DUE_ROWS
from tests.support.dynamodb import Recorder, store_on
from tests.support.records import record
from tests.support.transition_rows import OUR_VERSION
from tests.support.transition_table import TABLE as TRANSITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from tests.support.call_world import CallWorld

LAYER = Path(oncekey.__file__).parent
SERVICES = ("dynamodb", "s3", "sqs", "secretsmanager")
# Every place that calls AWS: the module, the function, and the client's methods that it calls.
PLACES = {
    ("store/dynamodb/outbox.py", "waiting"): {"scan"},
    ("store/dynamodb/outbox.py", "_update"): {"update_item"},
    ("store/dynamodb/outbox.py", "_delete"): {"batch_write_item"},
    ("store/dynamodb/store.py", "write"): {"put_item", "update_item"},
    ("store/dynamodb/store.py", "commit"): {"transact_write_items"},
    ("store/dynamodb/store.py", "due"): {"query"},
    ("store/dynamodb/store.py", "put_off"): {"update_item"},
    ("store/dynamodb/store.py", "_changed"): {"update_item"},
    ("store/dynamodb/store.py", "most_due_shards"): {"get_item", "update_item"},
    ("store/dynamodb/store.py", "save"): {"put_item"},
    ("store/dynamodb/store.py", "_get"): {"get_item"},
    # For tests, and by a person: no function of a deployment creates a table.
    ("store/dynamodb/tables.py", "_create"): {"create_table", "update_time_to_live"},
    ("store/s3.py", "put"): {"put_object"},
    ("store/s3.py", "get"): {"get_object"},
    ("store/secrets_manager.py", "_read"): {"get_secret_value"},
    ("store/sqs.py", "send"): {"send_message_batch"},
    ("store/sqs.py", "hide"): {"change_message_visibility"},
    ("store/sqs.py", "hide_all"): {"change_message_visibility_batch"},
    ("store/sqs.py", "visibility_timeout_s"): {"get_queue_attributes"},
}
# Every place that makes a client.
MAKERS = {
    ("store/dynamodb/client.py", "_boto3_client"),
    ("store/dynamodb/client.py", "default_client"),
    ("store/s3.py", "_own_client"),
    ("store/secrets_manager.py", "_client"),
    ("store/sqs.py", "_own_client"),
}
# A third of the time is for the connection, the rest for the answer. The engine repeats what may be
# repeated: a client of ours does not, but for a queue's that nobody waits for.
ONCE = {"total_max_attempts": 1, "mode": "standard"}
DYNAMODB = {
    "connect_timeout": 0.5,
    "read_timeout": 1.0,
    "retries": ONCE,
    "parameter_validation": False,
    "tcp_keepalive": True,
    "user_agent": f"Boto3/{boto3.__version__} lang/python#{platform.python_version()}",
    "user_agent_extra": "oncekey",
}
CLIENTS: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "of a store": (lambda: DynamoDBStore("t").read("v1#"), "dynamodb", DYNAMODB),
    "of a store with a time of its own": (
        lambda: DynamoDBStore("t", call_timeout_ms=600).read("v1#"),
        "dynamodb",
        DYNAMODB | {"connect_timeout": 0.2, "read_timeout": 0.4},
    ),
    "of an outbox": (lambda: OutboxTable("t").waiting(0), "dynamodb", DYNAMODB),
    "of a bucket": (
        lambda: ResponseBucket("b").get("answers/a"),
        "s3",
        {"connect_timeout": 1.0, "read_timeout": 2.0, "retries": ONCE},
    ),
    "of a queue": (
        lambda: SqsQueue("https://sqs.example/work").visibility_timeout_s(),
        "sqs",
        {
            "connect_timeout": 5 / 3,
            "read_timeout": 10 / 3,
            "retries": {"total_max_attempts": 2, "mode": "standard"},
            "user_agent_extra": "oncekey",
        },
    ),
    "of a worker's queue": (
        lambda: inbox.own_queue().visibility_timeout_s(),
        "sqs",
        {
            "connect_timeout": 1 / 3,
            "read_timeout": 2 / 3,
            "retries": ONCE,
            "user_agent_extra": "oncekey",
        },
    ),
    "of secrets": (
        lambda: secrets_manager.secret_text("a-secret", 0),
        "secretsmanager",
        {
            "connect_timeout": 0.5,
            "read_timeout": 1.0,
            "retries": ONCE,
            "user_agent_extra": "oncekey",
        },
    ),
}


@pytest.fixture
def world() -> Iterator[CallWorld]:
    """Everything that the layer calls, and nothing in it."""
    with call_world() as world:
        yield world


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_call_says_what_its_row_says_and_nothing_else(world: CallWorld, row: Row) -> None:
    """A method sends the operations of its row, each with exactly these parameters.

    Red when a read may be stale, a refused write does not show what it met, a change can make an
    item anew, a page has no bound, or a parameter comes or goes.
    """
    expected = row.calls(world)

    assert world.sent.calls == expected


@pytest.mark.parametrize(
    "row",
    [row for row in TRANSITIONS + DUE_ROWS if not isinstance(row.build(OUR_VERSION), Reserve)],
    ids=lambda row: row.name,
)
def test_every_transition_is_an_update_of_these_parameters(
    client: DynamoDBClient, row: Any
) -> None:
    """Whatever a transition changes, it is refused by a condition and shows what it met.

    Red when one of them has no condition, or its refusal tells nobody why.
    """
    sent = Recorder(client)
    transition = row.build(OUR_VERSION)

    store_on(client).write(transition)

    ((operation, parameters),) = sent.calls
    assert operation == "UpdateItem"
    assert set(parameters) == {
        *("TableName", "Key", "UpdateExpression", "ConditionExpression"),
        *("ExpressionAttributeNames", "ExpressionAttributeValues"),
        "ReturnValuesOnConditionCheckFailure",
    }
    assert parameters["Key"] == {"pk": {"S": transition.pk}}
    assert parameters["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert parameters["UpdateExpression"].startswith("SET #rev = #rev + :one")


def test_every_method_that_calls_aws_has_a_row() -> None:
    """A method that is new in a class of calls is stated in the tables, too."""
    stated = {method for row in ROWS for method in row.methods}
    public = {
        f"{owner.__name__}.{name}"
        for owner in (DynamoDBStore, OutboxTable, SqsQueue, ResponseBucket)
        for name, _ in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
    }

    assert stated == public | {"secret_text"}


def test_aws_is_called_from_these_places_only() -> None:
    """A call, and a client, that is new in the layer is stated here; nobody else calls a client.

    Red when another module sends something of its own.
    """
    methods: set[str] = set()
    for service in SERVICES:
        methods |= set(boto3.client(service).meta.method_to_api_mapping)  # type: ignore[call-overload]
    found: dict[tuple[str, str], set[str]] = {}
    makers: set[tuple[str, str]] = set()
    for path in sorted(LAYER.rglob("*.py")):
        name = str(path.relative_to(LAYER))
        for function, call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            receiver = ast.unparse(call.value)
            if receiver in {"boto3", "botocore", "session"} or "Session" in call.attr:
                makers.add((name, function))
            elif call.attr in methods:
                found.setdefault((name, function), set()).add(call.attr)

    assert found == PLACES
    assert makers == MAKERS


def _calls(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Attribute]]:
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield function, node.func
        yield from _calls(node, inner)


@pytest.mark.parametrize("named", CLIENTS)
def test_a_client_of_our_own_is_made_like_this(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of ours has short timeouts and no repeats, and everything else is boto3's business.

    Red when a call can take longer than its caller reckons with.
    """
    use, service, options = CLIENTS[named]
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", f"https://sqs.example/{named}")
    made: list[tuple[Any, dict[str, Any]]] = []

    class Made(Exception):
        """Nothing is sent."""

    def client(*services: Any, config: Any, **others: Any) -> None:
        made.append((services, {**config._user_provided_options, **others}))
        raise Made

    monkeypatch.setattr(boto3, "client", client)
    secrets_manager.forget()

    with pytest.raises(oncekey.StoreError):
        use()

    assert made == [((service,), options)]


def test_what_is_large_lies_under_the_prefix_of_its_lifetime() -> None:
    """Answers and payloads are where a rule removes them, results of steps where none does.

    Red when the evidence of a charge lies where a lifecycle rule comes by.
    """
    # Twice what an item holds, once it is compressed.
    large = random.Random(1).randbytes(800_000).hex()  # noqa: S311 -- any text of no pattern
    stored = record(pk="v1#pk", owner="owner-1")

    answer, _ = place_answer(large, stored, expires_at_s=1, has_bucket=True)
    result, _ = place_result(large, "charge", stored, has_bucket=True)
    payload = kept_apart("message-1", "owner-1", large)

    names = [at.name for at in (answer, result, payload) if isinstance(at, StoredRef)]
    assert names == [
        "answers/v1#pk#owner-1",
        "results/v1#pk#owner-1#charge",
        "outbox/message-1/owner-1",
    ]


def test_a_transactions_token_is_of_the_operation_the_owner_and_the_number() -> None:
    """The token of a commit is this one, in every release, and as long as DynamoDB takes.

    Red when two commits of one attempt, or of two attempts, have one token.
    """
    operation_id = "0f8fad5b-d9cb-469f-a165-70867728950e"

    assert token(operation_id, "owner-1", 0) == "441f1d44-b2a4-5736-9f63-9cab0461b10a"
    tokens = {
        token(of, owner, number)
        for of in (operation_id, "1f8fad5b-d9cb-469f-a165-70867728950e")
        for owner in ("owner-1", "owner-2")
        for number in (0, 1, 10)
    }
    assert len(tokens) == 12
    assert {len(each) for each in tokens} == {36}


@pytest.mark.parametrize("row", TRANSITIONS, ids=[row.name for row in TRANSITIONS])
def test_a_client_that_changes_its_parameters_changes_no_later_call(row: Any) -> None:
    """A handler of a user's client may change what it is given, in place and at any depth.

    Red when two calls share a part of their parameters.
    """
    transition = row.build(OUR_VERSION)

    def parameters() -> dict[str, Any]:
        if isinstance(transition, Reserve):
            return put_parameters("t", transition)
        return update_parameters("t", transition)

    def spoil(part: Any) -> None:
        for inner in part.values():
            if isinstance(inner, dict):
                spoil(inner)
        part.clear()

    expected = deepcopy(parameters())
    spoil(parameters())

    assert parameters() == expected
