"""By which names a pydantic model reads a body, and what it may read without one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from oncekey.http.event import read_request
from oncekey.http.fingerprint import fingerprints
from tests.support import events


def asked(body: str, model: type[Any]) -> str:
    """The fingerprint of `body` by `model`."""
    event = events.with_body(events.load("apigw_http_v2_post"), body)
    return fingerprints(read_request(event), model).current


def test_a_release_may_rename_an_attribute() -> None:
    """What a field is called in Python makes no difference where its name on the wire stays."""
    before = create_model("Before_", customer=(str, Field(alias="customerId")))
    after = create_model("After_", customer_id=(str, Field(validation_alias="customerId")))

    body = '{"customerId":"cus_1"}'
    assert asked(body, before) == asked(body, after)
    assert asked(body, before) != asked('{"customerId":"cus_2"}', before)


BY_NAME = ConfigDict(populate_by_name=True)
BY_NAME_ONLY = ConfigDict(validate_by_name=True, validate_by_alias=False)
CHOICES = AliasChoices("a", AliasPath("b", "c", 0))


@pytest.mark.parametrize(
    ("config", "alias", "body"),
    [
        (None, None, '{"card":VALUE}'),
        (None, "a", '{"a":VALUE}'),
        (None, CHOICES, '{"a":VALUE}'),
        (None, CHOICES, '{"b":{"c":[VALUE]}}'),
        (None, AliasPath("b", 1), '{"b":[0,VALUE]}'),
        (BY_NAME, "a", '{"card":VALUE}'),
        (BY_NAME, "a", '{"a":VALUE}'),
        (BY_NAME, CHOICES, '{"card":VALUE}'),
        (BY_NAME_ONLY, "a", '{"card":VALUE}'),
        (ConfigDict(alias_generator=str.upper), None, '{"CARD":VALUE}'),
        (ConfigDict(defer_build=True), "a", '{"a":VALUE}'),
    ],
)
def test_a_field_counts_by_every_name_that_the_model_takes_it_by(
    config: ConfigDict | None, alias: Any, body: str
) -> None:
    """Its own name, an alias, one of several, or a path: whatever the model reads is compared.

    Red when a name is missing: two bodies that the model tells apart would be one request. Other
    members, under whatever name, still make no difference.
    """
    field = Field(validation_alias=alias) if alias else Field()
    model = create_model("Named_", __config__=config, card=(int, field))
    one, other = body.replace("VALUE", "4242"), body.replace("VALUE", "4000")

    assert asked(one, model) != asked(other, model)
    assert asked(one, model) == asked(one.replace("{", '{"z":1,', 1), model)


def test_an_attributes_name_is_no_name_on_the_wire() -> None:
    """Where a field is read by its alias only, a member with the attribute's name is ignored.

    So it makes no difference, and what the attribute is called next makes none either.
    """
    model = create_model("Named_", card=(int, Field(alias="a")))

    assert asked('{"a":1,"card":1}', model) == asked('{"a":1,"card":2}', model)


class Before(BaseModel):
    """One that takes its amount from a member by an older name."""

    amount: int

    @model_validator(mode="before")
    @classmethod
    def _older(cls, data: Any) -> Any:
        return {"amount": data["cents"]} if "cents" in data else data


class Around(BaseModel):
    """The same, around everything else."""

    amount: int

    @model_validator(mode="wrap")
    @classmethod
    def _older(cls, data: Any, validate: Any) -> Any:
        return validate({"amount": data["cents"]})


class Made(BaseModel):
    """The same, as it is made."""

    amount: int

    def __init__(self, cents: int, **_: Any) -> None:
        super().__init__(amount=cents)


class Read(BaseModel):
    """The same, by a reading of its own."""

    amount: int

    @classmethod
    def model_validate_json(cls, json_data: Any, **_: Any) -> Any:
        """One whose amount is given in cents."""
        return cls(amount=int(json_data.partition(b":")[2].strip(b"}")))


class Own:
    """No model of pydantic's at all."""

    @classmethod
    def model_validate_json(cls, _document: bytes, /) -> Own:
        """An instance, of anything."""
        return cls()


@pytest.mark.parametrize("model", [Before, Around, Made, Read, Own])
def test_everything_counts_where_a_model_could_read_everything(model: type[Any]) -> None:
    """Code of the author's that is given the whole body may use members that no field names.

    Red when only the named ones count: two amounts would be one request.
    """
    assert asked('{"cents":1}', model) != asked('{"cents":2}', model)
    assert asked('{"cents":1}', model) == asked(' {"cents": 1}', model)


class After(BaseModel):
    """One that looks at itself when it is complete."""

    amount: int

    @model_validator(mode="after")
    def _look(self) -> After:
        return self

    def model_post_init(self, _context: Any) -> None:
        """Nothing."""


def test_a_validator_that_sees_only_the_instance_changes_nothing() -> None:
    """What the model ignores is hidden from a validator that runs after it."""
    assert asked('{"amount":1,"a":1}', After) == asked('{"amount":1,"a":2}', After)
    assert asked('{"amount":1}', After) != asked('{"amount":2}', After)


def test_a_model_that_holds_its_like_is_read_like_any_other() -> None:
    """A recursive model names its members as another one does."""

    class Tree(BaseModel):
        leaf: int = 0
        branches: list[Tree] = []

    assert asked('{"leaf":1,"a":1}', Tree) == asked('{"leaf":1}', Tree)
    assert asked('{"branches":[{"leaf":1}]}', Tree) != asked('{"branches":[{"leaf":2}]}', Tree)
