"""The document of a described service: printed, served, and valid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openapi_spec_validator import validate
from pydantic import BaseModel, create_model

from infra.service import SERVICE
from oncekey_local import cli
from oncekey_local.description import Cors, Function, Route, Service
from oncekey_local.openapi.document import document_of
from tests.support.dev_service import send
from tests.support.openapi import codes

if TYPE_CHECKING:
    from oncekey_local.dev_process import DevProcess


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The reference service's."""
    return document_of(SERVICE)


def test_the_document_is_valid_and_has_every_route(document: dict[str, Any]) -> None:
    """It is OpenAPI 3.1, and its operations are the described routes."""
    validate(document)
    operations = [
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item
    ]
    described = [route.key for function in SERVICE.functions for route in function.routes]

    assert sorted(operations) == sorted(described)


def test_the_options_of_the_handlers_are_in_the_document(document: dict[str, Any]) -> None:
    """Keys, refusals, retention and models are those of the decorated handlers."""
    report = document["paths"]["/reports"]["post"]
    schemas = document["components"]["schemas"]

    assert report["x-idempotency"]["retention_s"] == 30 * 24 * 3600
    assert {"202", "201"} <= {*report["responses"]}
    assert "not-started-in-time" in codes(document, "POST /reports")
    assert "attempt-unfinished" not in codes(document, "POST /refunds")
    assert codes(document, "GET /operations/{operation_id}")
    assert "signature-invalid" in codes(document, "POST /webhooks/stripe")
    for name in ("PaymentRequest", "PaymentAccepted", "RefundRequest", "Refund", "ReportRequest"):
        assert schemas[name]["type"] == "object"
    body = document["paths"]["/payments"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/PaymentRequest"}


def test_tokens_are_asked_for_where_the_service_does(document: dict[str, Any]) -> None:
    """Every operation needs a token but the webhook, and says what the gateway answers without."""
    for path, item in document["paths"].items():
        for operation in item.values():
            is_open = path == "/webhooks/stripe"
            assert ("security" in operation) is not is_open
            assert ("401" in operation["responses"]) is not is_open


class Tree(BaseModel):
    """A class that contains itself."""

    below: list[Tree] = []


# Of two modules, such as `orders.models` and `refunds.models`.
Numbered = create_model("Thing", number=(str, ...))
Named = create_model("Thing", name=(str, ...))


def test_each_class_has_a_schema_of_its_own() -> None:
    """Two classes may have one name, and a class may contain itself.

    Red when the second class replaces the first one, or a schema is nothing but a reference to
    itself.
    """
    names = ("Numbered", "Named", "Tree")
    function = Function(
        name="things",
        handler="functions.payments.handler.handler",
        timeout_s=20,
        routes=tuple(
            Route(method="GET", path=f"/{name}", answers={200: f"{__name__}.{name}"})
            for name in names
        ),
    )

    made = document_of(Service(name="things", functions=(function,), tables=()))

    validate(made)
    found = []
    for name in names:
        answer = made["paths"][f"/{name}"]["get"]["responses"]["200"]
        ref = answer["content"]["application/json"]["schema"]["$ref"]
        found.append({*made["components"]["schemas"][ref.rpartition("/")[2]]["properties"]})
    assert found == [{"number"}, {"name"}, {"below"}]


def test_the_variables_of_a_function_count() -> None:
    """A retention that the description sets by a variable is the documented one."""
    function = Function(
        name="payments",
        handler="functions.payments.handler.handler",
        timeout_s=20,
        routes=(Route(method="POST", path="/payments"),),
        environment={"ONCEKEY_RETENTION_S": "7200"},
    )
    service = Service(name="short", functions=(function,), tables=(), cors=Cors(origins=["*"]))

    (operation,) = document_of(service)["paths"]["/payments"].values()

    assert "kept for 2 hours" in operation["description"]


def test_the_command_prints_the_document(
    document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """`oncekey openapi` prints JSON and nothing else; a wrong reference is said, with status 2."""
    assert cli.main(["openapi", "--service", "infra.service:SERVICE"]) == 0
    assert json.loads(capsys.readouterr().out) == document

    assert cli.main(["openapi", "--service", "infra.service:NONE"]) == 2
    assert "names nothing" in capsys.readouterr().err


def test_a_broken_handler_shows_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A handler's module that fails on import is named, below its traceback.

    Red when the error's text alone is printed, which does not say where it came from.
    """
    reference = "tests.support.sample_service:BROKEN"

    assert cli.main(["openapi", "--service", reference]) == 2

    said = capsys.readouterr().err
    assert "broken_function.py" in said
    assert "tests.support.broken_function.handler fails on import, see above" in said


def test_the_running_service_serves_its_document(dev: DevProcess) -> None:
    """`oncekey dev` answers `GET /openapi.json` without a token."""
    answer = send(dev.url, path="/openapi.json")

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    served = answer.json()
    validate(served)
    assert "/echo" in served["paths"]
