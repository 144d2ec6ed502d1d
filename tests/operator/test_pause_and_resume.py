"""`oncekey pause` and `oncekey resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import EndpointConnectionError

from oncekey.errors import StoreError
from oncekey.record.pause import Pause, PauseScope
from tests.support.dynamodb import deny, dynamodb_table, store_on
from tests.support.operating import AUDIT, Operating, operating

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUNDS = "POST /refunds"
PAUSE = ("pause", REFUNDS, "--reason", "provider down", "--yes")


@pytest.fixture
def service(capsys: pytest.CaptureFixture[str]) -> Iterator[Operating]:
    """A service's tables."""
    with operating(capsys) as found:
        yield found


def test_a_pause_is_on_record_until_it_is_resumed(service: Operating) -> None:
    """Handlers read it from the table; both actions have their audit lines, with the reason."""
    assert service.run(*PAUSE) == 0
    (found,) = service.store.pauses()
    assert (found.scope, found.name, found.reason) == (
        PauseScope.OPERATION,
        REFUNDS,
        "provider down",
    )
    assert found.by.startswith("arn:aws:")

    assert service.run("resume", REFUNDS, "--reason", "it is back", "--yes") == 0
    assert service.store.pauses() == ()
    assert service.audited() == [
        ("pause", "intended", "provider down"),
        ("pause", "done", "provider down"),
        ("resume", "intended", "it is back"),
        ("resume", "done", "it is back"),
    ]


def test_what_is_paused_is_listed(service: Operating) -> None:
    """For people with its age, for programs with stable names; an empty list is said, too."""
    assert service.run("pause") == 0
    assert service.out == "nothing is paused\n"
    service.run(*PAUSE)
    service.run("pause", "--tenant", "acme", "--reason", "leaked key", "--yes")
    service.run("pause", "--all", "--reason", "moved", "--yes")

    listed = service.json("pause")

    assert [(each["scope"], each["name"], each["reason"]) for each in listed] == [
        ("operation", REFUNDS, "provider down"),
        ("tenant", "acme", "leaked key"),
        ("all", "*", "moved"),
    ]
    service.run("pause")
    assert "operation POST /refunds" in service.out
    assert "everything" in service.out


def test_who_pauses_twice_is_told(service: Operating) -> None:
    """The second reason replaces the first."""
    service.run(*PAUSE)
    service.run("pause", REFUNDS, "--reason", "still down", "--yes")

    assert "as it was before" in service.out
    assert [each.reason for each in service.store.pauses()] == ["still down"]


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("pause", REFUNDS, "--yes"), 2, "--reason TEXT"),
        (("pause", " ", "--reason", "r", "--yes"), 2, "say whose work it is"),
        (("pause", REFUNDS, "--reason", "r"), 2, "say --yes"),
        (("pause", "--reason", "r"), 2, "say whose work it is"),
        (("pause", "--yes"), 2, "say whose work it is"),
        (("resume", "--yes"), 2, "say whose work it is"),
        (("resume",), 2, "say what to resume"),
        (("resume", REFUNDS, "--reason", "r", "--yes"), 1, "is not paused"),
    ],
)
def test_what_is_not_said_is_not_done(
    service: Operating, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    """Nothing is paused, resumed or written to the audit table."""
    assert service.run(*arguments) == status
    assert sentence in service.err
    assert (service.store.pauses(), service.audited()) == ((), [])


def test_nothing_is_paused_without_an_audit_line(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the line cannot be written, the action does not begin. A script is told whether to try it
    again: after an outage, and not with a table that is not there.

    Red when a misspelled name counts as an outage.
    """

    def down(client: Any, model: Any, request: Any, context: Any) -> Any:
        if model.name == "PutItem" and AUDIT.encode() in request["body"]:
            raise EndpointConnectionError(endpoint_url="https://dynamodb.example")
        return answer(client, model, request, context)

    answer = vars(BaseClient)["_make_request"]
    with monkeypatch.context() as outage:
        outage.setattr(BaseClient, "_make_request", down)
        assert service.run(*PAUSE) == 3
    assert "nothing was changed" in service.err
    service.client.delete_table(TableName=AUDIT)
    assert service.run(*PAUSE) == 2
    assert "nothing was changed" in service.err
    assert "correct the name" in service.err
    assert service.store.pauses() == ()


def test_a_lost_answer_to_an_audit_line_is_no_failure(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 sends the call again, and DynamoDB refuses the second one, because the line is there.

    Red when an action is said to have failed that was done, and has both of its lines.
    """
    answer = vars(BaseClient)["_make_request"]
    lost: list[str] = []

    def second_call(client: Any, model: Any, request: Any, context: Any) -> Any:
        if model.name == "PutItem" and AUDIT.encode() in request["body"]:
            lost.append(model.name)
            answer(client, model, dict(request), context)
        return answer(client, model, request, context)

    monkeypatch.setattr(BaseClient, "_make_request", second_call)

    assert service.run(*PAUSE) == 0, service.err
    assert len(lost) == 2
    assert [outcome for _, outcome, _ in service.audited()] == ["intended", "done"]


def test_a_table_that_refuses_is_told_as_a_failure_of_the_store() -> None:
    """Whoever pauses or resumes knows that it may not have been done."""
    with dynamodb_table() as client:
        store = store_on(client)
        deny(client, "UpdateItem")
        stop = Pause(scope=PauseScope.OPERATION, name=REFUNDS, reason="", by="ops", since_ms=1)

        with pytest.raises(StoreError, match="AccessDenied"):
            store.pause(stop)
        with pytest.raises(StoreError, match="AccessDenied"):
            store.resume(PauseScope.OPERATION, REFUNDS)
