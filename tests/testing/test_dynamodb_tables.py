"""`dynamodb_tables` keeps the records of a test in tables on moto."""

from __future__ import annotations

import hmac
import os
import threading
from typing import Any

import boto3
import pytest

from oncekey import DynamoDBStore, current_operation, idempotent, single_tenant
from oncekey.errors import ConfigurationError
from oncekey.testing import api_event, dynamodb_tables, moto_tables
from oncekey.webhooks import Delivery, GitHubSignature, webhook

EVENT = api_event("POST /payments", key="key-of-one-payment", body={"amount": 1200})


@idempotent(
    operation="POST /payments",
    tenant=single_tenant(),
    effects="recorded",
    store=DynamoDBStore("production", outbox="messages"),
)
def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A handler that names its table in its code, and publishes a message."""
    current_operation().outbox.publish("payment.requested", {"amount": 1200})
    return {"statusCode": 201, "body": current_operation().operation_id}


def test_a_decorated_handler_uses_the_tables() -> None:
    """A handler with a table of its own keeps its records and messages in the test's tables."""
    with dynamodb_tables() as tables:
        first, again = handler(EVENT, None), handler(EVENT, None)
        counts = {
            name: tables.client.scan(TableName=name)["Count"]
            for name in (tables.records, tables.outbox, tables.audit)
        }

    assert again["body"] == first["body"]
    assert counts == {tables.records: 1, tables.outbox: 1, tables.audit: 0}


def test_each_use_has_tables_of_its_own() -> None:
    """Nothing is left of an earlier use."""
    bodies = []
    for _ in range(2):
        with dynamodb_tables() as tables:
            bodies.append(handler(EVENT, None)["body"])
            named = {tables.records, tables.outbox, tables.audit}
            assert {*tables.client.list_tables()["TableNames"]} == named

    assert bodies[0] != bodies[1]


def test_no_secret_of_an_earlier_use_is_known() -> None:
    """A secret that a test has put into Secrets Manager is gone with it, like its tables.

    Red when a test accepts a webhook by the secret of the test before it.
    """

    @webhook(operation="POST /hooks", scheme=GitHubSignature(), tenant=single_tenant())
    def hook(_delivery: Delivery) -> None:
        """Nothing is published."""

    def status(secret: str, *, is_there: bool = True) -> int:
        signature = f"sha256={hmac.digest(secret.encode(), b'{}', 'sha256').hex()}"
        signed = {"X-Hub-Signature-256": signature, "X-GitHub-Delivery": "delivery-1"}
        with dynamodb_tables():
            os.environ["ONCEKEY_WEBHOOK_SECRET_ARN"] = "hook"
            if is_there:
                boto3.client("secretsmanager").create_secret(Name="hook", SecretString=secret)
            answer = hook(api_event("POST /hooks", body="{}", headers=signed), None)
            return int(answer["statusCode"])

    assert status("secret-of-the-first-test") == 200
    assert status("secret-of-the-second-test") == 200
    assert status("secret-of-the-second-test", is_there=False) == 503


def test_the_environment_names_the_tables_until_the_end() -> None:
    """A relay, or code of the test's own, finds the tables by the variables."""
    before = dict(os.environ)

    with dynamodb_tables() as tables:
        assert os.environ["ONCEKEY_TABLE"] == tables.records
        assert os.environ["ONCEKEY_OUTBOX_TABLE"] == tables.outbox

    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9"),
        ("AWS_PROFILE", "no-such-profile"),
        ("ONCEKEY_TRANSPORT", "direct"),
        ("ONCEKEY_RESPONSE_BUCKET", "answers-of-production"),
    ],
)
def test_no_setting_of_the_machine_leads_elsewhere(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """Whatever the machine has set, every client that is made meanwhile reaches moto."""
    monkeypatch.setenv(variable, value)

    with dynamodb_tables() as tables:
        assert boto3.client("dynamodb").list_tables()["TableNames"]
        assert handler(EVENT, None)["statusCode"] == 201
        assert tables.client.scan(TableName=tables.records)["Count"] == 1
        assert variable not in os.environ


def test_moto_takes_one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While moto carries out a call, no other thread can begin one."""
    from moto.dynamodb.responses import DynamoHandler

    put_item, could_begin = DynamoHandler.put_item, []

    def watched(responses: DynamoHandler) -> Any:
        lock = moto_tables._one_call_at_a_time
        other = threading.Thread(target=lambda: could_begin.append(lock.acquire(blocking=False)))
        other.start()
        other.join()
        return put_item(responses)

    monkeypatch.setattr(DynamoHandler, "put_item", watched)
    with dynamodb_tables() as tables:
        tables.client.put_item(TableName=tables.audit, Item={"pk": {"S": "a"}, "at": {"S": "1"}})

    assert could_begin == [False]


def test_without_moto_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where moto is missing, the error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "moto", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'oncekey\[testing\]'"):
        dynamodb_tables().__enter__()
