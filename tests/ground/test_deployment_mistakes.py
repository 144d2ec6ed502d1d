"""Mistakes of a deployment that are told: a claim's name, a variable's, a table of another form."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    ConfigurationError,
    DynamoDBStore,
    StoreUnavailable,
    authorizer_value,
    idempotent_function,
    jwt_claim,
    single_tenant,
)
from oncekey.errors import StoreError
from oncekey.queued.status import OperationStatus
from oncekey.settings import VARIABLES, settings_from
from oncekey.store import defaults
from oncekey.store.aws_errors import said_of_the_deployment, store_error
from oncekey.testing.memory import MemoryStore
from tests.support.documents import DOCUMENTS
from tests.support.dynamodb import dynamodb_table
from tests.support.events import load
from tests.support.protected import Protected, problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

POST = load("apigw_http_v2_post")
SECRET = "4242-secret"


def refused(source: Any, authorizer: Mapping[str, Any], caplog: pytest.LogCaptureFixture) -> str:
    """What the log says of a request under this authorizer that is answered 403."""
    event = {**POST, "requestContext": {**POST["requestContext"], "authorizer": authorizer}}
    service = Protected(tenant=source, operation=f"claims of {caplog.handler!r}")
    caplog.set_level(logging.WARNING, logger="oncekey")
    caplog.clear()

    for _ in range(2):
        assert problem_of(service.send(event)) == (403, "tenant-missing", False)

    (said,) = caplog.records
    assert SECRET not in caplog.text
    return said.getMessage()


@pytest.mark.fault("K12.1")
def test_a_claim_of_another_name_is_told_with_the_names_that_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log names the claim that was looked for, those that are there and the nearest, once; it
    shows no value.

    Red when everybody gets a 403 and the log says nothing.
    """
    claims = {"jwt": {"claims": {"tenantId": SECRET, "sub": SECRET, "iss": SECRET}}}

    said = refused(jwt_claim("tenant_id"), claims, caplog)

    assert "there is no 'tenant_id'" in said
    assert "(did you mean tenantId?)" in said
    assert "'iss', 'sub', 'tenantId'" in said


@pytest.mark.fault("K12.1")
@pytest.mark.parametrize(
    ("source", "authorizer", "told"),
    [
        (jwt_claim("t"), {"claims": {"custom:t": SECRET}}, "there are 'custom:t'"),
        (jwt_claim("t"), {}, "there are none"),
        (jwt_claim("t"), {"jwt": {"claims": {"t": "null"}}}, "'t' is there and names nobody"),
        (authorizer_value("t"), {"lambda": {"tenant": SECRET}}, "there are 'tenant'"),
        (authorizer_value("t"), {"tenant": SECRET, "principalId": SECRET}, "'principalId'"),
        (lambda _: None, {"lambda": {"tenant": SECRET}}, "the names .* are 'tenant'"),
        (jwt_claim("t"), {"claims": {f"c{n:03}": SECRET for n in range(90)}}, "and 60 more"),
        (jwt_claim("t"), {"claims": {"a\nb": SECRET}}, r"'a\\nb'"),
    ],
    ids=["REST", "nothing", "null", "lambda", "REST lambda", "own source", "many", "control"],
)
def test_every_source_that_finds_nobody_is_told(
    source: Any, authorizer: Mapping[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told for each kind of authorizer and for a source of the author's own.

    Red when only the claims of one kind of token are looked at.
    """
    assert re.search(told, refused(source, authorizer, caplog))


@pytest.mark.fault("K12.1")
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (lambda: "acme", "the source raised TypeError; the names"),
        (lambda context: context["claims"].tenant, "the source raised KeyError; the names"),
        (lambda _context: 4242, "the source returned no name but int; the names"),
    ],
    ids=["arguments", "key", "number"],
)
def test_what_an_authors_source_does_instead_is_told(
    source: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every client gets 403, and nobody would look for the mistake in the source. No value is
    told.

    Red when the log names what is in the context, and not what the source made of it.
    """
    line = refused(source, {"claims": {"tenant": "4242"}}, caplog)

    assert told in line
    assert "4242" not in line


@pytest.mark.fault("K12.1")
def test_whoever_asks_after_an_operation_is_told_in_the_same_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The status of operations has a source of its own, whose mistake is told like a handler's.

    Red when its 403 says nothing.
    """
    event = {**POST, "requestContext": {**POST["requestContext"], "authorizer": {"tenant": "x"}}}
    status = OperationStatus(tenant=authorizer_value("tenants"), store=MemoryStore())

    assert status(event, None)["statusCode"] == 403
    assert "no 'tenants' in the authorizer's context (did you mean tenant?)" in caplog.text


@pytest.mark.fault("K12.4")
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ONCEKEY_RETENTIONS", "ONCEKEY_RETENTION_S"),
        ("ONCEKEY_RETENTION", "ONCEKEY_RETENTION_S"),
        ("ONCEKEY_DISABLE", "ONCEKEY_DISABLED"),
        ("ONCEKEY_TABEL", "ONCEKEY_TABLE"),
        ("ONCEKEY_TABLE_NAME", "ONCEKEY_TABLE"),
        ("ONCEKEY_OUTBOX", "ONCEKEY_OUTBOX_TABLE"),
        ("ONCEKEY_RECONCILER_MAX_ATTEMPTS", "ONCEKEY_RECONCILE_MAX_ATTEMPTS"),
        ("ONCEKEY_FINGERPRINT_SECRET", "ONCEKEY_FINGERPRINT_SECRETS"),
        ("ONCE_KEY_RETENTION_S", "ONCEKEY_RETENTION_S"),
        ("oncekey_retention_s", "ONCEKEY_RETENTION_S"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_nearest(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that looks like one of the library's is a fault of the configuration at the first
    call, and the message says what was meant.

    Red when what nobody reads is ignored.
    """
    monkeypatch.setenv(name, "1")

    with pytest.raises(ConfigurationError, match=f"{name} is no variable .* did you mean {meant}"):
        defaults.settings({})


@pytest.mark.fault("K12.4")
def test_variables_that_are_known_or_like_none_pass(caplog: pytest.LogCaptureFixture) -> None:
    """Every variable of the library is known; another with its prefix that is like none of them is
    logged, because a release after this one may read it.

    Red when a known one is refused, or a rollback stops the service.
    """
    known = {name: "3600" for name in VARIABLES if name.endswith(("_MS", "_S"))}
    settings_from({**known, "ONCEKEY_TABLE": "t", "ONCELER": "1", "PATH": ""}, {})
    assert caplog.records == []

    settings_from({"ONCEKEY_FLUX_CAPACITOR": "1"}, {})
    assert "nobody reads the variable ONCEKEY_FLUX_CAPACITOR" in caplog.text


@pytest.mark.fault("K12.4")
def test_a_misspelt_table_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no table is named, a variable that was meant to name it is told.

    Red when it is only said that the table is missing.
    """
    monkeypatch.setenv("ONCEKEY_TABEL", "a-table")

    @idempotent_function(operation="without a table", key="@", tenant=single_tenant())
    def function(record: str) -> None:
        """Does nothing."""

    with pytest.raises(ConfigurationError, match="did you mean ONCEKEY_TABLE"):
        function("a")


TABLES: list[tuple[str, dict[str, Any], str]] = [
    ("another key", {"key": [("id", "S", "HASH")]}, "key"),
    ("a sort key", {"key": [("pk", "S", "HASH"), ("sk", "S", "RANGE")]}, "key"),
    ("a number", {"key": [("pk", "N", "HASH")]}, "Type mismatch|does not match the schema"),
]


@pytest.mark.fault("K12.3")
@pytest.mark.parametrize(("name", "form", "said"), TABLES, ids=[name for name, _, _ in TABLES])
def test_a_table_of_another_form_is_told_as_that(
    name: str, form: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A table with another key is no outage: nobody is told to wait, nothing runs, and the log says
    what DynamoDB says and what the table needs.

    Red when it is a 503 that may be retried for ever, or DynamoDB's reason is dropped.
    """
    with dynamodb_table() as client:
        client.create_table(
            TableName="another-form",
            KeySchema=[{"AttributeName": n, "KeyType": kind} for n, _, kind in form["key"]],
            AttributeDefinitions=[
                {"AttributeName": n, "AttributeType": type_} for n, type_, _ in form["key"]
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        service = Protected(store=DynamoDBStore("another-form", client=client))
        answer = service.send(POST)

    assert problem_of(answer) == (503, "store-unavailable", False)
    assert "Retry-After" not in answer["headers"]
    assert service.runs == []
    (told,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert "partition key pk of type S" in told
    assert re.search(said, told)


INVALID = "One or more parameter values were invalid"
SCHEMA = "The provided key element does not match the schema"
TYPE = "Type mismatch for key pk expected: N actual: S"
INDEX = "The table does not have the specified index: due"
ACCESS = "not authorized to perform: dynamodb:PutItem on resource: arn:aws:dynamodb:eu-x:1:table/t"
SAID: list[tuple[str, str, str]] = [
    ("ValidationException", SCHEMA, SCHEMA),
    ("ValidationException", f"{INVALID}: Missing the key id in the item", "Missing the key id in"),
    ("ValidationException", f"{INVALID}: {TYPE}", TYPE),
    ("ValidationException", INDEX, INDEX),
    ("AccessDeniedException", f"User: arn:aws:sts::1:assumed-role/r/s is {ACCESS} because", ACCESS),
    ("ResourceNotFoundException", "Requested resource not found", "Requested resource not found"),
    ("ValidationException", f"The parameter cannot be converted to a number: {SECRET}", ""),
    ("ValidationException", f"Invalid UpdateExpression: token: {SECRET}", ""),
]


@pytest.mark.fault("K12.3")
@pytest.mark.parametrize(("code", "message", "said"), SAID, ids=range(len(SAID)))
def test_what_dynamodb_says_of_the_deployment_is_kept_and_no_value(
    code: str, message: str, said: str
) -> None:
    """The sentence about table, index or permissions is in the reason; what may quote a value is
    not.

    Red when the message is dropped, or repeated whole.
    """
    error = Exception(message)
    error.response = {"Error": {"Code": code, "Message": message}}  # type: ignore[attr-defined]

    reason = store_error(error).at("on table 't'").reason

    assert said in reason
    assert SECRET not in reason
    assert bool(said_of_the_deployment(error.response)) == bool(said)  # type: ignore[attr-defined]


@pytest.mark.fault("K12.3")
def test_a_missing_index_is_told_to_whoever_reads_it() -> None:
    """A query of an index that is not there says which index a table needs.

    Red when its reason is the code alone.
    """
    with dynamodb_table() as client:
        client.create_table(
            TableName="without-index",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        # moto answers as of a missing table.
        with pytest.raises(StoreError, match="on table 'without-index': check its name"):
            DynamoDBStore("without-index", client=client).due("00", 1)


@pytest.mark.fault("K12.3")
def test_a_function_is_told_that_no_waiting_helps() -> None:
    """A function's caller gets an exception that is no advice to wait, and is a `StoreUnavailable`.

    Red when it says that the same call is to be made again later.
    """
    with dynamodb_table() as client:

        @idempotent_function(
            operation="misconfigured",
            key="@",
            tenant=single_tenant(),
            store=DynamoDBStore("no-such-table", client=client),
        )
        def function(record: str) -> None:
            """Does nothing."""

        with pytest.raises(StoreUnavailable) as refusal:
            function("a")

    assert not refusal.value.retryable
    assert refusal.value.retry_after_s is None


@pytest.mark.fault("K12.4")
def test_every_variable_that_is_read_or_documented_is_known() -> None:
    """A variable that the library, its constructs or its documentation names is one of those that
    are known, so that none of them is refused for being like another.

    Red when a new variable is not added to the list.
    """
    root = Path(__file__).parents[2]
    files = [root / page for page in DOCUMENTS]
    for folder in ("layer", "infra", "functions"):
        files += (root / folder).rglob("*.py")
    named = {
        name
        for file in files
        for name in re.findall(r"\bONCEKEY_[A-Z0-9_]*[A-Z0-9]\b", file.read_text("utf-8"))
    }

    # The example of one that is misspelt.
    assert named - {"ONCEKEY_RETENTIONS"} <= set(VARIABLES)
