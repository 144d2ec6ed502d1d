"""The handler of the front page does what the page says."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from oncekey.testing import MemoryStore, use_store
from tests.support.documents import example, run_example
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.events import load, with_tenant
from tests.support.protected import headers_of


def test_the_first_handler_charges_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler of the front page: two requests, one charge, one downstream key."""
    charges = []

    def charge(amount: int, *, idempotency_key: str) -> str:
        charges.append((amount, idempotency_key))
        return "ch_1"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table():
        namespace = run_example("README.md", "POST /payments", charge=charge)
        event = with_tenant(load("apigw_http_v2_post"), "acme")
        answers = [namespace["handler"](event, None) for _ in range(2)]

    assert [json.loads(answer["body"]) for answer in answers] == [{"charge_id": "ch_1"}] * 2
    assert len(charges) == 1


BAD_BODIES = [
    "no JSON",
    "",
    None,
    "null",
    "[]",
    "{}",
    '"amount"',
    '{"amount": null}',
    '{"amount": "1200"}',
    '{"amount": 12.5}',
    '{"amount": true}',
    '{"amount": -1}',
    '{"amount": 1200',
    "\x00",
    "[" * 100_000,
    base64.b64encode(b"\xff\xfe").decode(),
]


@pytest.mark.fault("K12.6")
@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_the_first_handler_answers_a_bad_body_with_400_and_leaves_nothing_behind(
    body: str | None,
) -> None:
    """Whatever the body is, what is no order gets a 400, no record is written, and the same key
    works with an order.

    Red when the handler raises, or its refusal takes the key.
    """
    store = MemoryStore()
    with use_store(store):
        namespace = run_example(
            "README.md", "POST /payments", charge=lambda amount, idempotency_key: "ch_1"
        )
        order = with_tenant(load("apigw_http_v2_post"), "acme")
        bad = {**order, "body": body, "isBase64Encoded": body == BAD_BODIES[-1]}
        refused = [namespace["handler"](bad, None)["statusCode"] for _ in range(2)]
        written = dict(store.records)
        good = {**order, "body": b64('{"amount": 1200}'), "isBase64Encoded": True}
        answer = namespace["handler"](good, None)

    assert refused == [400, 400]
    assert written == {}
    assert (answer["statusCode"], json.loads(answer["body"])) == (201, {"charge_id": "ch_1"})


def b64(text: str) -> str:
    """As a gateway encodes a body."""
    return base64.b64encode(text.encode()).decode()


REFUSED = """    if charge_id is None:
        return {"statusCode": 402, "body": "card_declined"}
"""


class CardDeclinedError(Exception):
    """The provider's refusal, as its client raises it."""


@pytest.mark.parametrize("is_returned", [True, False])
def test_a_refused_card_is_answered_again_if_the_step_returns_it(*, is_returned: bool) -> None:
    """A refusal that the step of the front page's handler returns is stored with its 402, and the
    provider is asked once. A refusal that it raises is asked for again by the retry.
    """
    asked: list[str] = []

    def charge(amount: int, *, idempotency_key: str) -> None:
        asked.append(idempotency_key)
        if not is_returned:
            raise CardDeclinedError

    code, end = example("README.md", "POST /payments"), '    return {"statusCode": 201'
    assert code.count(end) == 1
    names: dict[str, Any] = {"charge": charge}
    with use_store(MemoryStore()):
        exec(compile(code.replace(end, REFUSED + end), "README.md", "exec"), names)  # noqa: S102
        event = with_tenant(load("apigw_http_v2_post"), "acme")
        answers = [_sent(names["handler"], event) for _ in range(2)]

    assert len(set(asked)) == 1
    if is_returned:
        assert [(each["statusCode"], each["body"]) for each in answers] == [
            *[(402, "card_declined")] * 2
        ]
        assert headers_of(answers[1])["idempotent-replayed"] == "true"
        assert len(asked) == 1
    else:
        assert answers == [CardDeclinedError] * 2
        assert len(asked) == 2


def _sent(handler: Any, event: Any) -> Any:
    """The answer, or the type of the exception that the caller of the handler gets."""
    try:
        return handler(event, None)
    except Exception as error:  # noqa: BLE001 -- the test compares it
        return type(error)
