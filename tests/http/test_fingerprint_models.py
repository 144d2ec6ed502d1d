"""Fingerprints of what was sent of the members that a pydantic model reads."""

from __future__ import annotations

import itertools
from collections import deque
from decimal import Decimal
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
    field_serializer,
    model_serializer,
)

from oncekey.http.event import read_request
from oncekey.http.fingerprint import fingerprints
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


class Forgiving(Payment):
    """The same, and whatever else comes with it."""

    model_config = ConfigDict(extra="allow")


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


class Bare(RootModel[SecretStr]):
    """A secret, and nothing around it."""


class Masked(BaseModel):
    """Something whose dump says nothing."""

    card: str

    @field_serializer("card")
    def _hide(self, _card: str) -> str:
        return "****"


class Renamed(BaseModel):
    """Something whose dump says it in other words."""

    card: SecretStr

    @model_serializer
    def _short(self) -> dict[str, Any]:
        return {"c": self.card}


class Open(BaseModel):
    """A secret, and whatever else the client sends."""

    model_config = ConfigDict(extra="allow")

    card: SecretStr


# A model with secrets, and a body that holds one at each CARD.
WITH_SECRETS: dict[str, tuple[type[BaseModel], str]] = {
    "field": (create_model("Field_", card=SecretStr), '{"card":"CARD"}'),
    "bytes": (create_model("Bytes_", card=SecretBytes), '{"card":"CARD"}'),
    "list": (create_model("List_", cards=list[SecretStr]), '{"cards":["x","CARD"]}'),
    "set": (create_model("Set_", cards=set[SecretStr]), '{"cards":["x","CARD"]}'),
    "deque": (create_model("Deque_", cards=deque[SecretStr]), '{"cards":["x","CARD"]}'),
    "dict": (create_model("Dict_", cards=dict[int, SecretStr]), '{"cards":{"1":"CARD"}}'),
    "keys": (create_model("Keys_", cards=dict[SecretStr, int]), '{"cards":{"CARD":1}}'),
    "tuple": (create_model("Tuple_", cards=tuple[int, SecretStr]), '{"cards":[1,"CARD"]}'),
    "optional": (create_model("Optional_", card=SecretStr | None), '{"card":"CARD"}'),
    "alias": (Holder, '{"cardNumber":"CARD"}'),
    "model": (create_model("Model_", holder=Holder), '{"holder":{"cardNumber":"CARD"}}'),
    "set of models": (
        create_model("Models_", holders=set[Holder]),
        '{"holders":[{"cardNumber":"CARD"}]}',
    ),
    "root": (Root, '["CARD"]'),
    "bare root": (Bare, '"CARD"'),
    "root inside": (create_model("Inside_", card=Bare), '{"card":"CARD"}'),
    "excluded": (create_model("Out_", card=(str, Field(exclude=True))), '{"card":"CARD"}'),
    "masked": (Masked, '{"card":"CARD"}'),
    "renamed": (Renamed, '{"card":"CARD"}'),
    "beside a root": (Open, '{"card":"CARD","root":{"a":1}}'),
    "beside a secret's method": (Open, '{"card":"CARD","get_secret_value":1}'),
    "beside a model's method": (Open, '{"card":"CARD","model_dump":1,"model_fields_set":1}'),
    "extra": (Open, '{"card":"x","other":"CARD"}'),
}


def asked(body: str, model: type[Any]) -> str:
    """The fingerprint of `body` by `model`."""
    event = events.with_body(events.load("apigw_http_v2_post"), body)
    return fingerprints(read_request(event), model).current


def test_a_model_selects_the_fields_that_it_knows() -> None:
    """Fields that the model does not know make no difference; those that it knows do."""
    assert asked('{"amount":1,"sent_at":"now"}', Payment) == asked('{"amount":1}', Payment)
    assert asked('{"amount":1}', Payment) != asked('{"amount":2}', Payment)
    assert asked('{"amount":1}', Payment) != asked('{"amount":1,"currency":"usd"}', Payment)


def test_what_a_model_keeps_counts_though_it_has_no_name_for_it() -> None:
    """A model that allows anything else is given anything else, so that counts too."""
    assert asked('{"amount":1,"a":1}', Forgiving) != asked('{"amount":1,"a":2}', Forgiving)
    assert asked('{"amount":1,"a":1}', Forgiving) != asked('{"amount":1}', Forgiving)


def test_a_release_may_add_fields_with_defaults() -> None:
    """A body sent again meets the same fingerprint after a release that added fields."""
    body = '{"amount":1}'

    assert asked(body, PaymentOfNextRelease) == asked(body, Payment)


def test_a_release_may_allow_or_forbid_other_fields() -> None:
    """A body without unknown fields has one fingerprint, whatever the model does about them."""
    assert asked('{"amount":1}', Forgiving) == asked('{"amount":1}', Payment)
    assert asked('{"amount":1}', Strict) == asked('{"amount":1}', Payment)


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
def test_secrets_count_though_a_dump_hides_them(model: type[BaseModel], body: str) -> None:
    """Two different secrets are two requests, wherever they stand, and the same one is one."""
    one, other = body.replace("CARD", "4242"), body.replace("CARD", "4000")

    assert asked(one, model) != asked(other, model)
    assert asked(one, model) == asked(f" {one}", model)
    assert "4242" not in asked(one, model)


def test_fingerprints_by_a_model_never_change() -> None:
    """A release that moves a fingerprint would refuse the honest retries of the one before.

    Red when what is hashed, its order, or its kind is changed under the same version.
    """
    assert {
        asked('{"currency":"usd","amount":1,"note":"é"}', Payment),
        asked('["4242"]', Root),
        asked('{"amount":1,"amount":2}', Payment),
    } == PINNED


PINNED = {
    "f1:TBn9BUf8PQbCHqsfIEvT1LthsLvLcCsjJR0y6LvnTXA",
    "f1:m0IZT8mQi2sP9omD8XgLegeK7MwzzsPaSNsWi50PQ2g",
    "f1:kyIONlwXq-F2xs1c-JkZ-K8DTc4b-NqThn3aqlGiEVc",
}


def test_spelling_makes_no_difference_and_values_do() -> None:
    """The body is compared as JSON: what the model would take for the same is another request."""
    assert asked('{ "currency":"eur", "amount":1e0 }', Payment) == asked(
        '{"amount":1,"currency":"eur"}', Payment
    )
    assert asked('{"amount":"1"}', Payment) != asked('{"amount":1}', Payment)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"price":9007199254740993}', '{"price":9007199254740992}'),
        ('{"price":333333333.33333329}', '{"price":333333333.33333330}'),
        ('{"price":1,"price":2}', '{"price":2}'),
    ],
)
def test_a_body_without_a_canonical_form_counts_byte_for_byte(one: str, other: str) -> None:
    """Numbers that a double does not hold, and names given twice, are not taken for others."""
    assert asked(one, Price) != asked(other, Price)
    assert asked(one, Price) == asked(one, Price)


def test_a_model_and_the_whole_body_are_not_confused() -> None:
    """A selection has another fingerprint than a body of the same text."""
    body = '{"amount":1}'
    request = read_request(events.with_body(events.load("apigw_http_v2_post"), body))

    assert fingerprints(request).current != fingerprints(request, Payment).current
