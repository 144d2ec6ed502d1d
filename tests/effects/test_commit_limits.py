"""What no transaction can hold is refused when it is collected, before anything is sent."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import pytest
from boto3.dynamodb.conditions import Attr

from oncekey import EffectMisused, Final, TransactionInvalid
from oncekey.effects.transaction import Collected
from oncekey.record.business_write import BusinessWrite
from oncekey.record.record import Status
from tests.support.dynamodb import items
from tests.support.recorded import (
    LEDGER,
    OUTBOX,
    World,
    point,
    publish,
    put,
)
from tests.support.steps import BESIDE, POST, Action, Steps, caught, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation

KB = 1024
RESERVE, COMMIT = "PutItem", "TransactWriteItems"
# Of what an item of moto's may have.
LARGE_ROW_BYTES = 399_000


def rows(count: int, *, size_bytes: int = 1) -> list[Action]:
    """Collect so many rows of this size, about."""
    return [put(f"row-{number}", filler=b"x" * size_bytes) for number in range(count)]


def check_refused(world: World, *actions: Action, match: str) -> None:
    """The last action is refused so; nothing is sent of what the handler collected, and its key is
    free.
    """
    service = world.service()

    with pytest.raises(TransactionInvalid, match=match):
        service.sends(*actions)

    assert world.take_sent() == [RESERVE, "UpdateItem"]
    assert world.record.status is Status.FAILED_RETRYABLE
    assert world.is_empty_of_effects()


@pytest.mark.parametrize("one_more", ["a write", "a message"])
def test_a_commit_holds_98_writes_and_messages(world: World, one_more: str) -> None:
    """98 of the author's are taken, whatever they are; the 99th is refused by its name, and the
    error says what to do.
    """
    full = [*rows(60), *[publish(f"topic-{number}") for number in range(38)]]
    action, named = {
        "a write": (put("more"), rf"^item 61 \(put on {LEDGER}\): .* at most 98 .*op\.commit"),
        "a message": (publish("more"), r"^message to more: .* at most 98 .*op\.commit"),
    }[one_more]

    check_refused(world, *full, action, match=named)
    assert world.service().sends(*full)["statusCode"] == 201

    assert (len(world.rows), len(world.messages)) == (60, 38)


def test_98_writes_leave_room_for_the_record_and_the_answer(world: World) -> None:
    """With 98 rows, a large answer and large results of steps, the transaction has DynamoDB's 100
    actions, and the result that found no room in it stays without an expiry.
    """
    service = world.service()
    fetch = step("fetch", BESIDE, is_idempotent=True)

    answer = service.sends(fetch, *rows(98), ends={"statusCode": 201, "body": BESIDE.hex()})

    assert answer["statusCode"] == 201
    (transaction,) = world.transactions()
    assert len(transaction["TransactItems"]) == 100
    assert len(world.rows) == 98
    kept = [item for item in items(world.client) if "status" not in item]
    assert sorted("expires_at" in item for item in kept) == [False, True]
    assert service.send(POST)["body"] == BESIDE.hex()


def test_each_commit_has_its_own_98(world: World) -> None:
    """What a commit has applied no longer counts."""
    service = world.service()

    answer = service.sends(*rows(98), point("first"), *rows(98))

    assert answer["statusCode"] == 201
    assert [len(each["TransactItems"]) for each in world.transactions()] == [99, 99]


@pytest.mark.parametrize("kind", ["put", "update"])
def test_an_item_has_at_most_400_kb(world: World, kind: str) -> None:
    """An item of 400 KB and one byte, names of attributes included, is refused by its number and
    table, with both sizes.
    """
    name_bytes = len("id") + len("big") + len("filler")
    values = {":filler": b"x" * (400 * KB + 1 - len("idbig:filler"))}
    action: Action = {
        "put": put("big", filler=b"x" * (400 * KB + 1 - name_bytes)),
        "update": lambda _service, op: op.transaction.update(
            LEDGER, {"id": "big"}, "SET filler = :filler", values=values
        ),
    }[kind]

    named = rf"^item 2 \({kind} on {LEDGER}\) has 409601 bytes, .* takes 409600 an item"
    check_refused(world, put("small"), action, match=named)


def test_an_item_of_exactly_400_kb_is_not_refused_here(world: World) -> None:
    """What DynamoDB takes is collected."""
    size_bytes = 400 * KB - len("id") - len("big") - len("filler")
    collected: list[int] = []

    def collect(service: Steps, op: Operation) -> None:
        put("big", filler=b"x" * size_bytes)(service, op)
        collected.append(size_bytes)
        op.discard()

    assert world.service().sends(collect)["statusCode"] == 201
    assert collected == [size_bytes]


def test_a_commit_leaves_4_kb_to_its_record() -> None:
    """Writes of 4 MB less 4 KB are collected, and not one byte more."""
    each = BusinessWrite(number=1, kind="put", table=LEDGER, size_bytes=399 * KB, parameters={})
    collected = Collected(writes=[each] * 10)
    left = 4 * KB * KB - 10 * 399 * KB - 4 * KB

    collected.check("the last", left)

    assert collected.fits(left)
    assert not collected.fits(left + 1)
    with pytest.raises(TransactionInvalid, match="^the last makes 4194305 bytes"):
        collected.check("the last", left + 1)


@pytest.mark.parametrize("last", ["a write", "a message"])
def test_a_commit_has_at_most_4_mb(world: World, last: str) -> None:
    """Writes and messages count together; the one that goes beyond is refused by its name, with
    both sizes, and a commit in between makes room.
    """
    full = [
        *rows(9, size_bytes=LARGE_ROW_BYTES),
        put("less", filler=b"x" * 100_000),
        *[publish(f"topic-{number}", "x" * 199_000) for number in range(2)],
    ]
    action, named = {
        "a write": (put("more", filler=b"x" * 300_000), rf"^item 11 \(put on {LEDGER}\)"),
        "a message": (publish("more", "x" * 199_500), r"^message to more"),
    }[last]
    actions = [*full, action]

    check_refused(world, *actions, match=rf"{named} makes 4\d{{6}} bytes .* takes 4194304")
    parted = [*actions[:5], point("half"), *actions[5:]]
    assert world.service().sends(*parted)["statusCode"] == 201

    assert world.take_sent()[-2:] == [COMMIT, COMMIT]


def on(row_id: str, kind: str) -> Action:
    """Collect an action of this kind on a row of the ledger."""
    key = {"id": row_id, "sort": 1}
    actions: dict[str, Callable[[Any], None]] = {
        "put": lambda to: to.put(LEDGER, {**key, "more": True}),
        "update": lambda to: to.update(LEDGER, key, "SET a = :a", values={":a": 1}),
        "delete": lambda to: to.delete(LEDGER, key),
        "check": lambda to: to.check(LEDGER, key, "attribute_exists(id)"),
    }
    return lambda _service, op: actions[kind](op.transaction)


KINDS = ["put", "update", "delete", "check"]
PAIRS = [(one, other) for one in KINDS for other in KINDS if (one, other) != ("put", "put")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_one_item_has_one_action(world: World, one: str, other: str) -> None:
    """A second action on an item of the same transaction, which DynamoDB would refuse, is refused
    by both their numbers; another item or another table is none.
    """
    named = rf"^item 3 \({other} on {LEDGER}\) is the same item as item 1 \({one} on"
    check_refused(world, on("same", one), on("another", other), on("same", other), match=named)


def test_two_puts_of_one_item_are_refused_by_dynamodb(world: World) -> None:
    """What a put's key is only its table knows; DynamoDB's refusal is told, and nothing applied."""
    with pytest.raises(TransactionInvalid, match="multiple operations on one item"):
        world.service().sends(put("same"), put("same", more=1), publish())

    assert world.is_empty_of_effects()


def test_the_same_key_in_another_table_or_commit_is_another_item(world: World) -> None:
    """One commit may write what an earlier one has written."""
    other = "idempotency-under-test"

    def elsewhere(_service: Steps, op: Operation) -> None:
        op.transaction.check(other, {"pk": "row"}, "attribute_not_exists(pk)")
        op.transaction.check(OUTBOX, {"id": "row"}, "attribute_not_exists(id)")

    assert world.service().sends(put("row", a=1), elsewhere, point("one"), put("row", a=2))
    assert world.rows["row"]["a"] == 2


WRONG_VALUES: dict[str, tuple[Callable[[Any], None], type[Exception], str]] = {
    "a float in an item": (
        lambda to: to.put(LEDGER, {"id": "a", "price": 1.5}),
        TypeError,
        "'price' is or holds a value.*rather than float",
    ),
    "a float in a value": (
        lambda to: to.update(LEDGER, {"id": "a"}, "SET a = :a", values={":a": {"b": [0.1]}}),
        TypeError,
        "rather than float",
    ),
    "a float in a condition": (
        lambda to: to.check(LEDGER, {"id": "a"}, Attr("price").gt(1.5)),
        TypeError,
        "rather than float",
    ),
    "an object": (
        lambda to: to.put(LEDGER, {"id": "a", "made": object()}),
        TypeError,
        "'made' is or holds a value that DynamoDB has no form for",
    ),
    "a number of too many digits": (
        lambda to: to.put(LEDGER, {"id": "a", "price": Decimal("1." + "1" * 40)}),
        TypeError,
        "of up to 38 digits",
    ),
    "a name that is no text": (
        lambda to: to.update(
            LEDGER, {"id": "a"}, "SET #n = :x", names={"#n": cast("str", b"x")}, values={":x": 1}
        ),
        TypeError,
        "attribute names and their placeholders are text; one is bytes",
    ),
    "a placeholder that is no text": (
        lambda to: to.update(LEDGER, {"id": "a"}, "SET a = :x", values={cast("str", b":x"): 1}),
        TypeError,
        "are text; one is bytes",
    ),
    "an attribute whose name is no text": (
        lambda to: to.put(LEDGER, {"id": "a", cast("str", 1): "x"}),
        TypeError,
        "are text; one is int",
    ),
    "a name in a map that is no text": (
        lambda to: to.put(LEDGER, {"id": "a", "map": {b"x": 1}}),
        TypeError,
        "'map' is or holds",
    ),
    "a condition that is none": (
        lambda to: to.check(LEDGER, {"id": "a"}, cast("str", {"a": 1})),
        TypeError,
        "it is dict",
    ),
    "no table": (lambda to: to.put("", {"id": "a"}), TransactionInvalid, "name the table"),
    "a table named by a number": (
        lambda to: to.put(cast("str", 7), {"id": "a"}),
        TransactionInvalid,
        "name the table",
    ),
    "a table that is no text": (
        lambda to: to.put(cast("str", None), {"id": "a"}),
        TransactionInvalid,
        "name the table",
    ),
    "no expression": (
        lambda to: to.update(LEDGER, {"id": "a"}, ""),
        TransactionInvalid,
        "write an update expression",
    ),
    "no condition": (
        lambda to: to.check(LEDGER, {"id": "a"}, cast("str", None)),
        TransactionInvalid,
        "made of a condition",
    ),
    "a lone surrogate": (
        lambda to: to.put(LEDGER, {"id": "a", "note": "\ud800"}),
        TypeError,
        "'note' is or holds",
    ),
    "a name that boto3 gives": (
        lambda to: to.update(
            LEDGER, {"id": "a"}, "SET #n0 = :x", condition=Attr("b").exists(), names={"#n0": "a"}
        ),
        ValueError,
        "#n0.*take others",
    ),
    "a value that boto3 gives": (
        lambda to: to.update(
            LEDGER, {"id": "a"}, "SET a = :v0", condition=Attr("b").eq(1), values={":v0": 1}
        ),
        ValueError,
        ":v0.*take others",
    ),
    "an empty set": (
        lambda to: to.put(LEDGER, {"id": "a", "of": {"tags": set()}}),
        TypeError,
        "'of' is or holds .* sets that are not empty",
    ),
    "an item that is none": (
        lambda to: to.put(LEDGER, cast("dict[str, str]", None)),
        TypeError,
        "are dictionaries; one is NoneType",
    ),
    "an item that is a list": (
        lambda to: to.put(LEDGER, cast("dict[str, str]", ["id"])),
        TypeError,
        "are dictionaries; one is list",
    ),
    "names that are none": (
        lambda to: to.put(LEDGER, {"id": "a"}, names=cast("dict[str, str]", None)),
        TypeError,
        "names= and values= are dictionaries; one is NoneType",
    ),
    "values that are none": (
        lambda to: to.put(LEDGER, {"id": "a"}, values=cast("dict[str, str]", None)),
        TypeError,
        "are dictionaries; one is NoneType",
    ),
    "a name with a lone surrogate": (
        lambda to: to.put(LEDGER, {"id": "a", "\ud800": "x"}),
        TypeError,
        "one has a lone surrogate",
    ),
    "a blank condition": (
        lambda to: to.put(LEDGER, {"id": "a"}, condition=" "),
        TypeError,
        "it is blank",
    ),
    "a blank expression": (
        lambda to: to.update(LEDGER, {"id": "a"}, " "),
        TransactionInvalid,
        "write an update expression",
    ),
    "an otherwise that is an answer": (
        lambda to: to.put(LEDGER, {"id": "a"}, otherwise=cast("Final", {"statusCode": 409})),
        TransactionInvalid,
        r"otherwise is a Final\(status, body\)",
    ),
    "an otherwise that is not made": (
        lambda to: to.put(LEDGER, {"id": "a"}, otherwise=cast("Final", Final)),
        TransactionInvalid,
        r"otherwise is a Final\(status, body\)",
    ),
    "an otherwise that commits": (
        lambda to: to.delete(LEDGER, {"id": "a"}, otherwise=Final(409, commit=True)),
        TransactionInvalid,
        "without commit",
    ),
}


@pytest.mark.parametrize(("write", "kind", "match"), WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_what_has_no_form_is_refused_where_it_stands(
    world: World, write: Callable[[Any], None], kind: type[Exception], match: str
) -> None:
    """The author's mistake is raised from the call that makes it; a handler that catches it goes
    on, and the rest is applied.
    """
    service = world.service()
    wrong = caught(lambda _service, op: write(op.transaction), kind)

    answer = service.sends(put("good"), wrong)

    assert answer["statusCode"] == 201
    with pytest.raises(kind, match=match):
        raise service.given[-1]
    assert list(world.rows) == ["good"]


@pytest.mark.parametrize(
    ("what", "effect"),
    [
        ("op.transaction.put", put("row")),
        ("op.outbox.publish", publish()),
        ("op.commit", point("inner")),
        ("op.discard", lambda _service, op: op.discard()),
    ],
)
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_inside_a_step_nothing_is_collected(
    world: World, what: str, effect: Action, is_idempotent: bool
) -> None:
    """What a step would collect would be missing when it is on record and does not run: it is
    refused, and nothing was collected.
    """
    service = world.service()

    def inside(inner_service: Steps, op: Operation) -> None:
        def function() -> None:
            with pytest.raises(EffectMisused, match=rf"{what}.* inside"):
                effect(inner_service, op)

        op.step("outer", function, idempotent=is_idempotent)

    assert service.sends(inside)["statusCode"] == 201
    assert world.is_empty_of_effects()
    assert [each.name for each in world.record.steps.finished] == ["outer"]
