"""A person settles operations with the operator's action, and the audit says so."""

from __future__ import annotations

import argparse
import io
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from oncekey import Completed, NotExecuted, StoreError
from oncekey.clock import SystemClock
from oncekey.record.record import Due, Effects, Status
from oncekey.record.references import reference_to
from oncekey.settlement.settlement import Settlement
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.testing.memory import ManualClock, MemoryStore
from oncekey_operator.actions.settling import end, settle
from oncekey_operator.commands import resolve as resolve_command
from oncekey_operator.commands.naming import census, check_census
from oncekey_operator.exits import CommandError, UsageError
from oncekey_operator.records.outlook import outlook
from tests.support.dynamodb import TABLE
from tests.support.noted_lines import WHO, WHY, Noted, operator
from tests.support.operating import operating
from tests.support.protected import fails
from tests.support.records import NOW_MS, STEPS, every_record, record
from tests.support.replacing import replace
from tests.support.settled import ANSWER, in_doubt, the
from tests.support.steps import FAILED, POST, Steps, step

if TYPE_CHECKING:
    from pathlib import Path

    from oncekey.record.record import Record
    from oncekey_operator.actions.settling import Settled

LONG_MS = 3_600_000


def test_a_completed_operation_gives_its_client_the_answer() -> None:
    """The answer that the person gave is replayed; two audit lines have who, why and the states."""
    service, noted = in_doubt(), Noted()

    settled = settle(operator(service.store, service.clock, noted), the(service), Completed(ANSWER))

    assert settled.is_done
    assert service.send(POST)["body"] == ANSWER["body"]
    first, second = noted.lines
    assert (first.outcome, first.before, first.after) == ("intended", "UNKNOWN", "")
    assert (second.outcome, second.before, second.after) == ("settled", "UNKNOWN", "COMPLETED")
    assert {(each.who, each.why, each.action_id) for each in noted.lines} == {
        (WHO, WHY, first.action_id)
    }


def test_not_executed_is_refused_until_no_call_can_arrive() -> None:
    """Before the grace is over it is too early; after it, the key runs again."""
    service, noted = in_doubt(), Noted()
    acting = operator(service.store, service.clock, noted)

    early = settle(acting, the(service), NotExecuted())
    service.clock.advance(LONG_MS)
    late = settle(acting, the(service), NotExecuted())

    assert (early.settlement, late.settlement) == (Settlement.TOO_EARLY, Settlement.SETTLED)
    assert noted.outcomes() == ["intended", "too-early", "intended", "settled"]
    assert service.send(POST)["statusCode"] == 201


def test_a_finding_is_no_newer_than_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who looked before the grace was over, and answers the question after it, has not
    seen whether a call of the dead attempt arrived in between.

    Red when the time of the answer counts as the time of the look.
    """
    clock = ManualClock(NOW_MS)
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: clock.now_ms())

    def answers_later(_question: str, **_: object) -> bool:
        clock.advance(LONG_MS)
        return True

    monkeypatch.setattr(resolve_command, "confirm", answers_later)
    doubt = {"status": Status.UNKNOWN, "due": Due(shard="0", at_ms=1)}
    unknown = record(**doubt, pk=f"v1#{'B' * 43}", escalated_at_ms=None, lease_until_ms=NOW_MS)
    what = ("resolve", reference_to(unknown), "--not-executed", "--reason", "nothing there")
    with operating(capsys) as service:
        service.client.put_item(TableName=TABLE, Item=attribute_values(unknown))

        assert service.run(*what) == 1
        assert "look at the provider again after the grace" in service.out
        assert service.run(*what) == 0


def test_a_finding_about_one_attempt_settles_no_later_one() -> None:
    """What is certain of the attempt that a person looked at says nothing about the next one."""
    service, noted = in_doubt(), Noted()
    acting, looked_at = operator(service.store, service.clock, noted), the(service)
    service.clock.advance(LONG_MS)
    settle(acting, looked_at, NotExecuted())
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)
    service.clock.advance(LONG_MS)

    stale = settle(acting, looked_at, NotExecuted())

    assert (stale.settlement, the(service).status) == (Settlement.OVERTAKEN, Status.UNKNOWN)
    assert noted.lines[-1].outcome == "overtaken"
    assert settle(acting, the(service), NotExecuted()).is_done


def test_that_it_was_executed_is_true_of_every_later_attempt() -> None:
    """Who has seen the effect of an earlier attempt ends the operation with its answer."""
    service, noted = in_doubt(effects="repeatable"), Noted()
    acting, looked_at = operator(service.store, service.clock, noted), the(service)
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)

    assert settle(acting, looked_at, Completed({"statusCode": 201, "body": "made"})).is_done
    assert (the(service).attempt, the(service).status) == (2, Status.COMPLETED)


def test_a_bulk_action_is_about_the_operations_that_were_shown() -> None:
    """As many others, or another attempt of the same, are not what a person has agreed to."""
    shown = [record(), record(pk="v1#other")]
    found = census(shown)

    assert found.startswith("2-")
    check_census(found, census(reversed(shown)))
    for others in ([shown[0], record(pk="v1#third")], [shown[0], record(pk="v1#other", attempt=4)]):
        with pytest.raises(CommandError, match="not the operations of the dry run"):
            check_census(found, census(others))


class Unreadable(MemoryStore):
    """A store that answers no read after it was written to."""

    was_written = False

    def write(self, transition: Any) -> Any:
        """As the memory store's."""
        self.was_written = True
        return super().write(transition)

    def read(self, pk: str) -> Record | None:
        """As the memory store's, or no answer."""
        if self.was_written:
            raise StoreError("no answer", transient=True)
        return super().read(pk)


def test_a_store_that_stops_to_answer_leaves_no_action_without_its_end() -> None:
    """The operation is settled, and the second line says so, if the state cannot be read again."""
    service, noted = in_doubt(store=Unreadable()), Noted()
    service.store.was_written = False

    settled = settle(operator(service.store, service.clock, noted), the(service), Completed(ANSWER))

    assert settled.is_done
    assert [(line.outcome, line.after) for line in noted.lines][1:] == [("settled", "not read")]


def test_what_was_settled_of_many_is_told_before_one_cannot_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second of two needs the name of a step. The first is settled, and the command says so."""
    with operating(capsys) as service:
        states = {"status": Status.UNKNOWN, "escalated_at_ms": None}
        first = record(**states, due=Due(shard="0", at_ms=1))
        second = record(**states, due=Due(shard="0", at_ms=2), pk="v1#other")
        second = replace(second, effects=Effects.RECORDED, steps=STEPS["started"])
        for each in (first, second):
            service.client.put_item(TableName=TABLE, Item=attribute_values(each))

        many = ("--all-listed", "--unknown", "--not-executed", "--reason", WHY, "--yes")
        status = service.run("resolve", *many, "--expect", census([first, second]))

    assert (status, service.out) == (2, f"{first.operation_id}: settled\n")
    assert "1 of 2 settled" in service.err


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--all-listed", "--unknown", "--attempt", "2"), "--attempt"),
        (("--all-listed", "--unknown", "--principal", "user_1"), "--principal"),
        (("an-operation-id", "--expect", "1-abc"), "--expect"),
        (("an-operation-id", "--escalated"), "--escalated"),
        (("an-operation-id", "--tenant", "acme", "--attempt", "2"), "--tenant"),
    ],
)
def test_nobody_settles_other_operations_than_the_options_name(
    arguments: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that would not narrow what is settled is refused."""
    with operating(capsys) as service:
        assert service.run("resolve", *arguments, "--not-executed", "--reason", WHY) == 2
    assert f"{option} would have no effect" in service.err


def test_an_answer_from_standard_input_is_utf_8(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the terminal's encoding is, the client gets the text that the person has sent.

    Red when a terminal with Latin-1 stores an answer with "Ã¼" in place of "ü" for good.
    """
    piped = io.TextIOWrapper(io.BytesIO('{"name": "Zürich"}'.encode()), "latin-1")
    monkeypatch.setattr("sys.stdin", piped)
    options = argparse.Namespace(completed="-", end_with=None, not_executed=False)

    assert resolve_command._finding(options) == Completed({"name": "Zürich"})


@pytest.mark.parametrize("text", ["NaN", '{"statusCode": 201, "body": [-Infinity]}', "{", "\xff"])
def test_an_answer_that_is_no_json_is_refused(text: str, tmp_path: Path) -> None:
    """No client could read it, and it would be the answer for good."""
    file = tmp_path / "answer.json"
    file.write_text(text, "latin-1")
    options = argparse.Namespace(completed=str(file), end_with=None, not_executed=False)

    with pytest.raises(UsageError, match="is not JSON"):
        resolve_command._finding(options)


def test_who_reads_no_further_is_not_told_that_all_were_settled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`oncekey resolve --all-listed | head -1` leaves the others, and its exit status says so."""
    with operating(capsys) as service:
        states = {"status": Status.UNKNOWN, "escalated_at_ms": None, "lease_until_ms": 1}
        pair = [record(**states, due=Due(shard="0", at_ms=at), pk=f"v1#{at}") for at in (1, 2)]
        for each in pair:
            service.client.put_item(TableName=TABLE, Item=attribute_values(each))
        monkeypatch.setattr(resolve_command, "_print", Mock(side_effect=BrokenPipeError))

        many = ("--all-listed", "--unknown", "--not-executed", "--reason", WHY, "--yes")
        status = service.run("resolve", *many, "--expect", census(pair))

    assert status == 1
    assert "1 of 2 settled" in service.err


def test_a_denial_that_nobody_is_asked_about_names_its_attempt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A script that heard of one attempt settles no later one, so it has to say which it was."""
    with operating(capsys) as service:
        doubt = {"status": Status.UNKNOWN, "due": Due(shard="0", at_ms=1)}
        one = record(**doubt, pk=f"v1#{'B' * 43}", escalated_at_ms=None, lease_until_ms=1)
        service.client.put_item(TableName=TABLE, Item=attribute_values(one))
        denies = ("resolve", reference_to(one), "--not-executed", "--reason", WHY, "--yes")

        assert service.run(*denies) == 2
        assert "say --attempt N" in service.err
        assert service.run(*denies, "--attempt", str(one.attempt - 1)) == 1
        assert service.store.read(one.pk) == one
        assert service.run(*denies, "--attempt", str(one.attempt)) == 0


@pytest.mark.parametrize(
    ("body", "sent"), [({"id": "é"}, '{"id": "é"}'), ([1], "[1]"), ("{}", "{}"), (None, None)]
)
def test_the_body_of_an_answer_may_be_json(body: Any, sent: str | None) -> None:
    """A person writes JSON in JSON. It is encoded once; a text is sent as it is."""
    service, noted = in_doubt(), Noted()
    answer = {"statusCode": 201, "body": body}

    settle(operator(service.store, service.clock, noted), the(service), Completed(answer))

    assert service.send(POST)["body"] == sent


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"headers": []}, "headers is an object"),
        ({"headers": False}, "headers is an object"),
        ({"multiValueHeaders": ""}, "multiValueHeaders is an object"),
        ({"body": "half of a pair: \ud83d"}, "half of a surrogate pair"),
        ({"body": {"name": "\ud83d"}}, "half of a surrogate pair"),
        ({"body": "not base64!", "isBase64Encoded": True}, "not base64"),
        ({"body": "YWJj\n", "isBase64Encoded": True}, "not base64"),
        ({"body": {"id": "re_1"}, "isBase64Encoded": True}, "not base64"),
        ({"body": {"amount": float("inf")}}, "number"),
        ({"isBase64Encoded": "false"}, "isBase64Encoded is true or false"),
        ({"statusDescription": 5}, "statusDescription is a text"),
        ({"isBase64Encoded": 1}, "isBase64Encoded is true or false"),
        ({"statusCode": 101}, "statusCode from 200 to 599"),
        ({"Body": "{}"}, "'Body'"),
        ({"header": {}}, "'header'"),
    ],
)
def test_an_answer_that_no_gateway_can_send_is_refused(
    wrong: dict[str, Any], sentence: str
) -> None:
    """Every retry would get it for good, or an error of the gateway in its place. Nothing is
    written, also if it ends an operation that failed.
    """
    service, noted = in_doubt(), Noted()
    acting, answer = operator(service.store, service.clock, noted), Completed({**ANSWER, **wrong})
    failed = failed_after_a_step()

    with pytest.raises(UsageError, match=sentence):
        settle(acting, the(service), answer)
    with pytest.raises(UsageError, match=sentence):
        end(operator(failed.store, failed.clock, noted), failed.record, answer)

    assert (noted.lines, the(service).status) == ([], Status.UNKNOWN)
    assert failed.record.status is Status.FAILED_RETRYABLE


def test_an_answer_with_all_that_a_gateway_reads_is_taken() -> None:
    """Its optional members may be there, and may be null."""
    service, noted = in_doubt(), Noted()
    answer: dict[str, Any] = {
        "statusCode": "200",
        "statusDescription": "200 OK",
        "headers": {"X-Tries": 2},
        "multiValueHeaders": None,
        "cookies": [],
        "body": "YWJj",
        "isBase64Encoded": True,
    }

    assert settle(
        operator(service.store, service.clock, noted), the(service), Completed(answer)
    ).is_done
    assert service.send(POST)["body"] == "YWJj"


def failed_after_a_step(service: Steps | None = None) -> Steps:
    """An operation whose first step is done, and whose second failed."""
    service = service or Steps()
    service.sends(step("charge", "c-1"), ends=FAILED)
    assert service.record.status is Status.FAILED_RETRYABLE
    return service


def ends(service: Steps, noted: Noted) -> Settled:
    """A person ends it with an answer."""
    acting = operator(service.store, service.clock, noted)
    return end(acting, service.record, Completed({"statusCode": 422, "body": {"refused": True}}))


def test_a_failed_operation_is_ended_for_good() -> None:
    """Its client gets the answer of the person, and no step runs again; its steps are forgotten by
    nobody before that, and two audit lines say who ended it.
    """
    service, noted = failed_after_a_step(), Noted()

    assert ends(service, noted).is_done

    answer = service.sends(step("charge"), step("ship"))
    assert (answer["statusCode"], answer["body"]) == (422, '{"refused": true}')
    assert (service.ran, service.record.status) == (["charge"], Status.COMPLETED)
    assert [(line.outcome, line.before, line.after) for line in noted.lines] == [
        ("intended", "FAILED_RETRYABLE", ""),
        ("settled", "FAILED_RETRYABLE", "COMPLETED"),
    ]


def test_an_operation_that_went_on_in_the_meantime_is_not_ended() -> None:
    """The end is about the version that the person has seen."""
    service, noted = failed_after_a_step(), Noted()
    acting, seen = operator(service.store, service.clock, noted), service.record
    assert service.sends(step("charge"), step("ship"))["statusCode"] == 201

    settled = end(acting, seen, Completed({"statusCode": 422}))

    assert settled.settlement is Settlement.OVERTAKEN
    assert service.send(POST)["statusCode"] == 201


@pytest.mark.parametrize("call", ["Resume", "Complete"])
def test_an_end_that_is_interrupted_leaves_what_can_go_on(call: str) -> None:
    """The store fails in between: the audit says so, and the operation goes on or is ended."""
    service, noted = failed_after_a_step(), Noted()
    service.store.refuse(call, 1000)

    with pytest.raises(StoreError):
        ends(service, noted)
    service.store.recovers()
    service.clock.advance(LONG_MS)

    assert noted.outcomes() == ["intended", "failed: StoreError"]
    assert service.sends(step("charge"), step("ship"))["statusCode"] == 201
    assert service.ran == ["charge", "ship"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": Status.UNKNOWN, "escalated_at_ms": None}, "look at the provider first"),
        ({"status": Status.IN_PROGRESS, "lease_until_ms": NOW_MS + LONG_MS}, "still runs"),
        ({"status": Status.IN_PROGRESS, "lease_until_ms": 1}, "next run of the reconciler"),
        ({"status": Status.COMPLETED, "expires_at_s": 2**40}, "it has ended already"),
    ],
)
def test_what_is_in_doubt_runs_or_has_an_answer_is_not_ended(
    changes: dict[str, Any], sentence: str
) -> None:
    """The refusal says what to do, and nothing is written."""
    noted, store = Noted(), MemoryStore()
    acting = operator(store, ManualClock(NOW_MS), noted)

    with pytest.raises(CommandError, match=sentence):
        end(acting, record(effects=Effects.RECORDED, **changes), Completed({"statusCode": 422}))

    assert noted.lines == []


def test_an_action_without_an_audit_line_is_not_done() -> None:
    """If the first line cannot be written, the record stays as it was."""
    service = in_doubt()
    before = the(service)

    with pytest.raises(CommandError, match="nothing was changed"):
        settle(operator(service.store, service.clock, Noted(fails=True)), before, Completed(ANSWER))

    assert the(service) == before


def test_an_answer_that_cannot_be_stored_has_no_audit_line() -> None:
    """A mistake in the file is found before anything is written."""
    service, noted = in_doubt(), Noted()

    with pytest.raises(UsageError, match="statusCode"):
        settle(operator(service.store, service.clock, noted), the(service), Completed({"id": 1}))

    assert noted.lines == []


def test_each_unknown_record_has_a_command_that_settles_it() -> None:
    """Every record has an outlook, and no unknown one leaves a person without a next step."""
    for each in every_record():
        found = outlook(each, NOW_MS)
        assert found.client
        if each.status is Status.UNKNOWN:
            assert found.command.startswith(f"oncekey resolve {each.pk}."), each
