"""Fingerprints of what a pydantic model understood of the body."""

from __future__ import annotations

import itertools
from decimal import Decimal  # noqa: TC003 -- pydantic reads it as the class is made
from typing import Any, Literal

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretBytes,
    SecretStr,
    create_model,
)

from oncekey.errors import RequestRefused
from oncekey.fingerprint import fingerprint
from oncekey.http_event import read_request
from tests.support import events

_drawn = itertools.count()


class Payment(BaseModel):
    """What counts of a payment."""

    amount: int
    currency: Literal["eur", "usd"] = "eur"


class PaymentOfNextRelease(Payment):
    """The same with fields that its clients do not know yet."""

    note: str = ""
    position: int = Field(default_factory=lambda: next(_drawn))


class Strict(Payment):
    """The same, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class Price(BaseModel):
    """A price, exactly as written."""

    price: Decimal


class Card(BaseModel):
    """One way to pay."""

    kind: Literal["card"] = "card"


class Transfer(BaseModel):
    """Another way to pay."""

    kind: Literal["transfer"] = "transfer"


class Order(BaseModel):
    """Something paid in one of two ways."""

    method: Card | Transfer


class Holder(BaseModel):
    """Something with a secret in it, that a set can hold."""

    model_config = ConfigDict(frozen=True, serialize_by_alias=True)

    card: SecretStr = Field(alias="cardNumber")


class Root(RootModel[list[SecretStr]]):
    """A list of secrets, and nothing around it."""


class Tagged(BaseModel):
    """Something with a set of texts in it."""

    tags: set[str]


# A model with secrets, and a body that holds one at each CARD.
WITH_SECRETS: dict[str, tuple[type[BaseModel], str]] = {
    "field": (create_model("Field_", card=SecretStr), '{"card":"CARD"}'),
    "bytes": (create_model("Bytes_", card=SecretBytes), '{"card":"CARD"}'),
    "list": (create_model("List_", cards=list[SecretStr]), '{"cards":["x","CARD"]}'),
    "set": (create_model("Set_", cards=set[SecretStr]), '{"cards":["x","CARD"]}'),
    "dict": (create_model("Dict_", cards=dict[int, SecretStr]), '{"cards":{"1":"CARD"}}'),
    "tuple": (create_model("Tuple_", cards=tuple[int, SecretStr]), '{"cards":[1,"CARD"]}'),
    "optional": (create_model("Optional_", card=SecretStr | None), '{"card":"CARD"}'),
    "alias": (Holder, '{"cardNumber":"CARD"}'),
    "model": (create_model("Model_", holder=Holder), '{"holder":{"cardNumber":"CARD"}}'),
    "set of models": (
        create_model("Models_", holders=set[Holder]),
        '{"holders":[{"cardNumber":"CARD"}]}',
    ),
    "root": (Root, '["CARD"]'),
}


def asked(body: str, model: type[BaseModel]) -> str:
    """The fingerprint of `body` by `model`."""
    return fingerprint(
        read_request(events.with_body(events.load("apigw_http_v2_post"), body)), model
    )


def refusal(body: str, model: type[BaseModel]) -> str:
    """What a client is told whose body does not fit `model`."""
    with pytest.raises(RequestRefused) as caught:
        asked(body, model)
    assert caught.value.code == "request-invalid"
    return caught.value.detail


def test_a_model_selects_the_fields_that_it_knows() -> None:
    """Fields that the model does not know make no difference; those that it knows do."""
    assert asked('{"amount":1,"sent_at":"now"}', Payment) == asked('{"amount":1}', Payment)
    assert asked('{"amount":1}', Payment) != asked('{"amount":2}', Payment)
    assert asked('{"amount":1}', Payment) != asked('{"amount":1,"currency":"usd"}', Payment)


def test_a_release_may_add_fields_with_defaults() -> None:
    """A body sent again meets the same fingerprint after a release that added fields."""
    body = '{"amount":1}'

    assert asked(body, PaymentOfNextRelease) == asked(body, Payment)


def test_a_default_drawn_anew_makes_no_difference() -> None:
    """A field that the client left out does not count, whatever its default came to be."""
    body = '{"amount":1}'

    assert asked(body, PaymentOfNextRelease) == asked(body, PaymentOfNextRelease)


def test_alternatives_that_differ_in_a_default_only_are_different() -> None:
    """Two members of a union are two requests, even where each sent nothing but its default."""
    assert asked('{"method":{"kind":"card"}}', Order) != asked(
        '{"method":{"kind":"transfer"}}', Order
    )


@pytest.mark.parametrize(("model", "body"), WITH_SECRETS.values(), ids=WITH_SECRETS)
def test_secrets_count_though_a_dump_masks_them(model: type[BaseModel], body: str) -> None:
    """Two different secrets are two requests, wherever they stand, and the same one is one."""
    one, other = body.replace("CARD", "4242"), body.replace("CARD", "4000")

    assert asked(one, model) != asked(other, model)
    assert asked(one, model) == asked(f" {one}", model)
    assert "4242" not in asked(one, model)


def test_a_set_is_the_same_in_every_process() -> None:
    """A retry that another sandbox receives has the fingerprint that the first one computed.

    The order of a set of texts changes from one process to the next, so the value is pinned.
    """
    body = '{"tags":["a","b","c","d","e"]}'

    assert asked(body, Tagged) == "f1:wX15ZOfNXGzRu_4MxK_fJ6OMTqPn45uhDhBIXkvkHIM"
    assert asked('{"tags":["e","d","c","b","a","a"]}', Tagged) == asked(body, Tagged)
    assert asked('{"tags":["a","b","c","d"]}', Tagged) != asked(body, Tagged)


def test_amounts_count_exactly() -> None:
    """A decimal is compared by its digits, not as a double."""
    one, other = '{"price":9007199254740993}', '{"price":9007199254740992}'

    assert asked(one, Price) != asked(other, Price)


def test_a_model_and_the_whole_body_are_not_confused() -> None:
    """A selection has another fingerprint than a body of the same text."""
    body = '{"amount":1}'
    request = read_request(events.with_body(events.load("apigw_http_v2_post"), body))

    assert fingerprint(request) != fingerprint(request, Payment)


@pytest.mark.parametrize(
    ("body", "model", "told"),
    [
        ('{"amount":"4242secret"}', Payment, "amount: Input should be a valid integer"),
        ("{}", Payment, "amount: Field required"),
        ('{"amount":1,"currency":"4242secret"}', Payment, "currency: Input should be 'eur' or"),
        ('{"amount":1,"note":"4242secret"}', Strict, "note: Extra inputs are not permitted"),
        ("4242secret", Payment, "body: Invalid JSON"),
        ("", Payment, "body: Invalid JSON"),
        ('["4242secret"]', Payment, "body: Input should be an object"),
    ],
)
def test_a_body_that_does_not_fit_names_the_field_and_not_the_value(
    body: str, model: type[BaseModel], told: str
) -> None:
    """The refusal says which field is wrong and why, and repeats no value."""
    detail = refusal(body, model)

    assert told in detail
    assert model.__name__ in detail
    assert "4242secret" not in detail


def test_every_wrong_field_is_named_at_once() -> None:
    """A client that corrects its body need not ask twice."""
    detail = refusal('{"amount":"x","currency":"y"}', Payment)

    assert "amount: " in detail
    assert "currency: " in detail


def test_any_class_that_validates_json_will_do() -> None:
    """A class with pydantic's two methods is a model; its ValueError becomes a plain refusal."""

    class Own:
        @classmethod
        def model_validate_json(cls, document: bytes) -> Own:
            if document == b"4242secret":
                raise ValueError("4242secret")
            return cls()

        def model_dump(self, **_: Any) -> dict[str, int]:
            return {"a": 1}

    request = read_request(events.with_body(events.load("apigw_http_v2_post"), "4242secret"))

    assert fingerprint(read_request(events.load("apigw_http_v2_post")), Own).startswith("f1:")
    with pytest.raises(RequestRefused) as caught:
        fingerprint(request, Own)
    assert "does not fit the model" in caught.value.detail
    assert "4242secret" not in caught.value.detail
