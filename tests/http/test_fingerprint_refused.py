"""Bodies that do not fit: what the client is told, what is logged, and what neither repeats."""

from __future__ import annotations

import itertools
import json
import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator
from pydantic_core import PydanticCustomError

from oncekey.errors import ConfigurationError, NotExecuted, RequestRefused
from oncekey.http.event import read_request
from oncekey.http.fingerprint import fingerprints
from tests.support import events

SECRET = "4242secret"
GENERAL = "The request does not have the form that this operation needs."


class Payment(BaseModel):
    """What counts of a payment."""

    amount: int
    currency: Literal["eur", "usd"] = "eur"


class Strict(Payment):
    """The same, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Card(BaseModel):
    """One way to pay."""

    kind: Literal["card"]


class Transfer(BaseModel):
    """Another way to pay."""

    kind: Literal["transfer"]
    iban: str


@dataclass
class Place:
    """Somewhere."""

    zip_code: int


class Notes(BaseModel):
    """Things beside the point."""

    author: int


class Order(BaseModel):
    """Something with others inside it, in every way."""

    metadata: Notes | None = None
    method: Annotated[Card | Transfer, Field(discriminator="kind")] | None = None
    lines: list[Payment] = []
    by_name: dict[str, Payment] = {}
    by_number: dict[int, int] = {}
    place: Place | None = None
    ticket: UUID | None = None
    short: str = Field(default="", max_length=3, alias="shortText")


class Judged(BaseModel):
    """Something whose author checks it."""

    by_value: str = ""
    by_type: str = ""
    by_text: str = ""
    by_context: str = ""
    by_assertion: str = ""

    @field_validator("by_value")
    @classmethod
    def _value(cls, value: str) -> str:
        raise ValueError(f"bad {value}")

    @field_validator("by_type")
    @classmethod
    def _type(cls, value: str) -> str:
        # The name of a rule of pydantic's, and a text that is not.
        raise PydanticCustomError("missing", "bad {value}", {"value": value})

    @field_validator("by_text")
    @classmethod
    def _text(cls, value: str) -> str:
        raise PydanticCustomError(f"bad_{value}", "bad")

    @field_validator("by_context")
    @classmethod
    def _context(cls, value: str) -> str:
        raise PydanticCustomError("bad", "{error} is bad", {"error": value})

    @field_validator("by_assertion")
    @classmethod
    def _assertion(cls, value: str) -> str:
        assert not value, f"bad {value}"
        return value


def asked(body: str, select: Any) -> str:
    """The fingerprint of `body` by `select`."""
    event = events.with_body(events.load("apigw_http_v2_post"), body)
    return fingerprints(read_request(event), select).current


def refusal(body: str, select: Any) -> str:
    """What a client is told whose body does not fit."""
    with pytest.raises(RequestRefused) as caught:
        asked(body, select)
    assert caught.value.code == "request-invalid"
    return caught.value.detail


@pytest.mark.parametrize(
    ("body", "model", "told"),
    [
        ('{"amount":"SECRET"}', Payment, "amount: Input should be a valid integer, unable to"),
        ("{}", Payment, "amount: Field required"),
        ('{"amount":1,"currency":"SECRET"}', Payment, "currency: Input should be 'eur' or 'usd'"),
        ('{"amount":1,"SECRET":"x"}', Strict, "*: Extra inputs are not permitted"),
        ("SECRET", Payment, "body: Invalid JSON"),
        ("", Payment, "body: Invalid JSON"),
        ('["SECRET"]', Payment, "body: Input should be an object"),
        ('{"metadata":{"author":"SECRET"}}', Order, "metadata.author: Input should be a valid"),
        ('{"method":{"kind":"SECRET"}}', Order, "method: union_tag_invalid"),
        ('{"method":{}}', Order, "method: Unable to extract tag using discriminator 'kind'"),
        ('{"method":{"kind":"transfer"}}', Order, "method.*.iban: Field required"),
        ('{"lines":[{"amount":1},{}]}', Order, "lines.1.amount: Field required"),
        ('{"by_name":{"SECRET":{}}}', Order, "by_name.*.amount: Field required"),
        ('{"by_number":{"SECRET":1}}', Order, "by_number.*.*: Input should be a valid integer"),
        ('{"place":{"zip_code":"SECRET"}}', Order, "place.zip_code: Input should be a valid int"),
        ('{"ticket":"SECRET"}', Order, "ticket: Input should be a valid UUID."),
        ('{"shortText":"SECRET"}', Order, "shortText: String should have at most 3 characters"),
        ('{"by_value":"SECRET"}', Judged, "by_value: Value error."),
        ('{"by_type":"SECRET"}', Judged, "by_type: missing."),
        ('{"by_text":"SECRET"}', Judged, "by_text: not valid."),
        ('{"by_context":"SECRET"}', Judged, "by_context: bad."),
        ('{"by_assertion":"SECRET"}', Judged, "by_assertion: Assertion failed."),
    ],
)
def test_a_refusal_names_field_and_rule_and_repeats_nothing(
    body: str, model: type[BaseModel], told: str
) -> None:
    """The client reads which field of the model is wrong and why, and nothing that it sent.

    Red when a value stands in the text of a rule, or a name that the client chose in a location.
    """
    detail = refusal(body.replace("SECRET", SECRET), model)

    assert told in detail
    assert f"is not a valid {model.__name__}: " in detail
    assert "4242" not in detail


def test_every_wrong_field_is_named_at_once() -> None:
    """A client that corrects its body need not ask twice."""
    detail = refusal('{"amount":"x","currency":"y"}', Payment)

    assert detail.count("; ") == 1
    assert "amount: " in detail
    assert "currency: " in detail


def test_of_many_faults_ten_are_told() -> None:
    """Ten faults are listed and the others counted; with ten, none is left to count.

    Red when the answer grows with the body.
    """
    many = refusal(json.dumps({"amount": 1, **{f"k{n}": 1 for n in range(1_000)}}), Strict)
    ten = refusal(json.dumps({"amount": 1, **{f"k{n}": 1 for n in range(10)}}), Strict)

    assert many.count("Extra inputs") == ten.count("Extra inputs") == 10
    assert many.endswith("; and 990 more.")
    assert "more" not in ten


def test_locations_and_rules_are_short() -> None:
    """A model with long names, patterns or many alternatives does not make a long answer."""
    name = "long" * 100
    model = create_model("Long", **{name: (Literal[tuple("ab" * n for n in range(999))], "")})  # type: ignore[call-overload]

    detail = refusal(f'{{"{name}":1}}', model)

    assert name[:97] + "...: Input should be" in detail
    assert len(detail) < 400


def failing(error: BaseException) -> type[BaseModel]:
    """A model whose author's code raises `error` on every body."""

    class Failing(BaseModel):
        @model_validator(mode="before")
        @classmethod
        def _fail(cls, _data: Any) -> Any:
            raise error

    return Failing


def raising(error: BaseException) -> Any:
    """A callable that raises `error` on every request."""

    def selector(_request: object) -> object:
        raise error

    return selector


@pytest.mark.parametrize(
    "error",
    [KeyError(SECRET), IndexError(SECRET), TypeError(SECRET), AttributeError(SECRET)],
    ids=repr,
)
@pytest.mark.parametrize("make", [raising, failing])
def test_code_that_fails_on_a_request_means_that_the_request_is_wrong(
    make: Any, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that sends what the author did not expect gets a 400; the author finds the type.

    Red when the exception reaches the platform as a 500, or nobody hears of a mistake in the code.
    """
    with caplog.at_level(logging.WARNING, "oncekey"):
        detail = refusal("{}", make(error))

    (said,) = caplog.messages
    assert detail == GENERAL
    assert type(error).__name__ in said
    assert ("selector" in said) or ("Failing" in said)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("body", ["[" * 100_000, SECRET, "[]", "{}", "1", '{"amount":1}', ""])
def test_a_callable_may_read_the_body_without_checks(body: str) -> None:
    """What `json.loads` and a look-up raise on any body, the deepest too, is a refusal."""
    assert refusal(body, lambda request: json.loads(request.body)["amount"]["value"]) == GENERAL


@pytest.mark.parametrize("seconds", [10**13, 10**18, 10**20])
def test_a_time_beyond_the_calendar_is_a_fault_of_the_request(seconds: int) -> None:
    """Nanoseconds in place of seconds are refused like any other wrong number, by a callable and by
    a model.

    Red when the system's own error for them reaches the platform as a 500.
    """

    def at(body: bytes) -> str:
        return datetime.fromtimestamp(json.loads(body), UTC).isoformat()

    class Timed:
        @classmethod
        def model_validate_json(cls, document: bytes) -> str:
            return at(document)

    assert refusal(str(seconds), lambda request: at(request.body)) == GENERAL
    assert refusal(str(seconds), Timed) == GENERAL


def broken(error: BaseException) -> Any:
    """A class that is no model of pydantic's and raises `error` on every body."""

    class Broken:
        @classmethod
        def model_validate_json(cls, _document: bytes) -> Any:
            raise error

    return Broken


@pytest.mark.parametrize(
    ("make", "error"),
    [
        *itertools.product(
            [raising, failing, broken],
            [OSError(), RuntimeError(), NotExecuted(), KeyboardInterrupt()],
        ),
        # Inside pydantic it is a ValueError like any other.
        *itertools.product([raising, broken], [ConfigurationError("here", [])]),
    ],
)
def test_what_is_not_about_the_request_is_raised(make: Any, error: BaseException) -> None:
    """A file that is missing, a wrong configuration or an interruption is no fault of the client.

    Red when everything is taken for a bad request, ConfigurationError with the other ValueErrors.
    """
    with pytest.raises(type(error)) as caught:
        asked("{}", make(error))

    assert caught.value is error


def test_a_callable_may_refuse_in_its_own_words() -> None:
    """`RequestRefused` raised by a callable is the answer."""
    assert refusal("{}", raising(RequestRefused("request-invalid", "Say how much."))) == (
        "Say how much."
    )


def test_a_refusal_that_says_why_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A body that breaks a rule of the model is the client's matter alone."""
    refusal("{}", Payment)

    assert caplog.messages == []


def test_any_class_that_validates_json_will_do() -> None:
    """A class with pydantic's method is a model; its ValueError becomes a plain refusal."""

    class Own:
        @classmethod
        def model_validate_json(cls, document: bytes) -> Own:
            if document == SECRET.encode():
                raise ValueError(SECRET)
            return cls()

    assert asked("{}", Own).startswith("f1:")
    assert refusal(SECRET, Own) == GENERAL


def test_without_pydantic_there_is_nothing_to_know_of_its_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ValueError is not asked for details that only pydantic's errors have."""
    monkeypatch.delitem(sys.modules, "pydantic_core")

    assert refusal("{}", failing(ValueError(SECRET))) == GENERAL
