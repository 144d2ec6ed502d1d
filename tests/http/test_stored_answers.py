"""Which answers are stored, what is changed before they are, and what older ones become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey import Final, NotExecuted
from oncekey.record.record import Status
from tests.support.events import load, with_key
from tests.support.protected import (
    SHAPES,
    Answer,
    Protected,
    answers,
    fails,
    headers_of,
    is_replay,
    problem_of,
    records,
)

POST = load("apigw_http_v2_post")


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_failure_that_is_stored_is_not_run_again_by_retries(shape: str) -> None:
    """With `store_when="begun"` an exception is stored as a 500, and every retry gets that answer
    without hammering what has failed.

    Red when the exception is raised to the platform, the key is released, or a retry runs.
    """
    event = load(shape)
    service = Protected(store_when="begun")
    service.then = fails(ValueError("a detail that is nobody's business"))

    first = service.send(event)
    again = [service.send(event) for _ in range(3)]

    assert problem_of(first) == (500, "request-failed", False)
    assert "nobody's business" not in first["body"]
    assert [answer["body"] for answer in again] == [first["body"]] * 3
    assert all(is_replay(answer) for answer in again)
    assert len(service.runs) == 1
    assert records(service)[0].status is Status.COMPLETED


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("status", [200, 302, 404, 408, 425, 429, 500, 503])
def test_any_answer_is_stored_once_the_handler_has_begun(status: int) -> None:
    """With `store_when="begun"` every answer is the last word, whatever its status.

    Red when a status that is not final by itself is left out.
    """
    service = Protected(store_when="begun")
    service.then = answers(status)

    assert service.send(POST)["statusCode"] == status
    replay = service.send(POST)

    assert replay["statusCode"] == status
    assert is_replay(replay)
    assert len(service.runs) == 1


@pytest.mark.requirement("A8")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_by_default_a_failure_is_not_the_last_word(status: int) -> None:
    """With `store_when="final"` an answer that says "not now" is not stored: the caller gets it,
    and what happened counts as unknown, or runs again where that is harmless.

    Red when `final` stores a server's error.
    """
    careful, repeatable = Protected(), Protected(effects="repeatable")
    for service in (careful, repeatable):
        service.then = answers(status)
        first = service.send(POST)
        assert first["statusCode"] == status
        assert "idempotency-expires" not in headers_of(first)
        service.then = None

    assert problem_of(careful.send(POST))[:2] == (409, "outcome-unknown")
    assert repeatable.send(POST)["statusCode"] == 201
    assert (len(careful.runs), len(repeatable.runs)) == (1, 2)


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_what_provably_did_not_happen_is_not_stored(effects: str) -> None:
    """`NotExecuted` releases the key also with `store_when="begun"`: there is no failure to keep.

    Red when every exception is stored.
    """
    service = Protected(store_when="begun", not_executed=LookupError, effects=effects)
    for proof in (NotExecuted(), LookupError()):
        service.then = fails(proof)
        assert problem_of(service.send(POST)) == (503, "not-executed", True)
    service.then = None

    assert service.send(POST)["statusCode"] == 201
    assert len(service.runs) == 3


def test_a_process_that_is_told_to_end_stores_no_failure() -> None:
    """`SystemExit` and its like are no answers: what happened is unknown.

    Red when `begun` catches every exception there is.
    """
    service = Protected(store_when="begun")
    service.then = fails(SystemExit(1))

    with pytest.raises(SystemExit):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN


@pytest.mark.parametrize("store_when", ["final", "begun", lambda _answer: False])
def test_a_final_answer_that_is_raised_is_stored_under_every_rule(store_when: Any) -> None:
    """`Final` says that its answer is the last word, and no rule is asked."""
    service = Protected(store_when=store_when)
    service.then = fails(Final(503, {"away": True}))

    first, replay = service.send(POST), service.send(POST)

    assert first["statusCode"] == replay["statusCode"] == 503
    assert first["body"] == replay["body"]
    assert is_replay(replay)


def test_an_author_decides_which_answers_are_stored() -> None:
    """A callable is given the whole answer, and what it says holds for every status.

    Red when its verdict is not asked for, or something else is given to it.
    """
    seen: list[Answer] = []

    def rule(answer: Answer) -> bool:
        seen.append(answer)
        return bool(answer["statusCode"] != 422)

    service = Protected(store_when=rule, effects="repeatable")
    service.then = answers(422, "not yet")
    service.send(POST)
    service.then = answers(500, "for good")
    first, replay = service.send(POST), service.send(POST)

    assert [(answer["statusCode"], answer["body"]) for answer in seen] == [
        (422, "not yet"),
        (500, "for good"),
    ]
    assert first["statusCode"] == replay["statusCode"] == 500
    assert is_replay(replay)
    assert len(service.runs) == 2


@pytest.mark.parametrize(
    ("option", "told"),
    [("store_when", (409, "outcome-unknown")), ("before_store", (500, "answer-unavailable"))],
)
def test_a_rule_of_the_author_that_fails_never_has_the_handler_run_again(
    option: str, told: tuple[int, str]
) -> None:
    """The handler has run when a rule raises: its error is raised, and nothing runs again. Without
    `store_when` nobody knows how it ended; without `before_store` only its answer is lost.

    Red when the key is released, or the record never written.
    """

    def broken(_answer: Answer) -> Any:
        raise ZeroDivisionError

    options: dict[str, Any] = {option: broken}
    service = Protected(**options)

    with pytest.raises(ZeroDivisionError):
        service.send(POST)

    assert problem_of(service.send(POST))[:2] == told
    assert len(service.runs) == 1


def test_what_is_stored_can_be_redacted() -> None:
    """With `before_store` the first caller gets a secret that the table never holds.

    Red when the redacted answer is given to the first caller, or the full one stored.
    """

    def redacted(answer: Answer) -> Answer:
        # In place, as authors do.
        answer["body"] = answer["body"].replace("pin 1234", "pin withheld")
        return answer

    service = Protected(before_store=redacted)
    service.then = answers(201, "pin 1234")

    first, replay = service.send(POST), service.send(POST)

    assert (first["body"], replay["body"]) == ("pin 1234", "pin withheld")
    assert "1234" not in str(records(service)[0].response)


@pytest.mark.requirement("D8")
def test_an_answer_of_an_older_version_is_upgraded_when_it_is_given() -> None:
    """A release that gives answers of version 2 turns a stored one of version 1 into its own form;
    its own answers it leaves alone.

    Red when the version is not stored, the hook is not called, or is for the present version.
    """
    old = Protected(response_version=1)
    old.then = answers(201, json.dumps({"amount": 5}))
    old.send(POST)
    asked: list[int] = []

    def upgrade(answer: Answer, version: int) -> Answer:
        asked.append(version)
        return answer | {"body": json.dumps({"amount": {"value": 5, "from": version}})}

    new = Protected(store=old.store, response_version=2, upgrade_response=upgrade)
    new.then = answers(201, "of now")
    replay = new.send(POST)
    own = with_key(POST, "a-key-of-this-release")
    new.send(own)

    assert json.loads(replay["body"]) == {"amount": {"value": 5, "from": 1}}
    assert is_replay(replay)
    assert new.send(own)["body"] == "of now"
    assert asked == [1]
    assert sorted(record.response_version for record in records(new)) == [1, 2]


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "changed",
    [
        {"body": {"amount": 5}},
        {"headers": {"X-Amount": "5\r\nSet-Cookie: a=b"}},
        {"headers": {"X-Amount": ["5"]}},
        {"more": {1, 2}},
    ],
)
def test_an_upgraded_answer_that_cannot_be_sent_is_told(changed: dict[str, Any]) -> None:
    """It is checked like a handler's answer.

    Red when a header gets a line break, or the gateway an answer that it cannot read.
    """
    old = Protected(response_version=1)
    old.send(POST)
    new = Protected(
        store=old.store,
        response_version=2,
        upgrade_response=lambda answer, _version: answer | changed,
    )

    with pytest.raises(TypeError, match="what upgrade_response returned cannot be sent"):
        new.send(POST)
    assert not new.runs


@pytest.mark.requirement("D8")
def test_without_a_hook_an_older_answer_is_given_as_it_was() -> None:
    """Nobody says how to turn the answer of another version into one of this: it stays as it is.

    Red when an answer of another version is refused, or makes the handler run again.
    """
    old = Protected(response_version=1)
    first = old.send(POST)
    new = Protected(store=old.store, response_version=2)

    assert new.send(POST)["body"] == first["body"]
    assert new.runs == []
