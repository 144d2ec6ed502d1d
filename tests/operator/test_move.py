"""`oncekey move`: a table's records are copied, and nothing is lost, doubled or taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.service_resources import IDEMPOTENCY
from oncekey import DynamoDBStore, NotExecuted
from oncekey.record.pause import EVERYTHING, Pause, PauseScope
from oncekey.store.dynamodb.codec import attribute_values
from oncekey_local import cli
from oncekey_local.store.tables import create_table_request
from oncekey_operator.actions.moving import Moved, move
from oncekey_operator.commands import move as move_command
from tests.support.dynamodb import TABLE, items
from tests.support.events import with_key
from tests.support.operating import AUDIT, MESSAGES, REGION, Operating, operating
from tests.support.protected import Protected, fails, is_replay, while_running
from tests.support.quotas import Metered
from tests.support.records import record
from tests.support.replacing import replace
from tests.support.steps import POST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEW = "new-table"
REASON = ("--reason", "a table with a better key", "--yes")
OTHER = with_key(POST, "another-key-of-a-client")


@pytest.fixture
def service(capsys: pytest.CaptureFixture[str]) -> Iterator[Operating]:
    """A service's tables, and a new table of records beside them."""
    with operating(capsys) as found:
        found.client.create_table(**create_table_request(NEW, IDEMPOTENCY))
        yield found


def contents(service: Operating, table: str) -> dict[str, Any]:
    """The items of a table by their keys."""
    found = service.client.scan(TableName=table)["Items"]
    return {each["pk"]["S"]: each for each in found}


def copied(service: Operating, handler: Protected) -> Moved:
    """One pass, now."""
    return move(service.client, TABLE, NEW, handler.clock.now_ms(), lambda _read: None)


def on(service: Operating, table: str, old: Protected) -> Protected:
    """The same handler on another table, at the same time."""
    store = DynamoDBStore(table, client=service.client)
    return Protected(store=store, clock=old.clock)


def test_a_client_of_the_new_table_gets_the_answer_of_the_old_one(service: Operating) -> None:
    """Every item is the same in both tables, its TTL too: records, companions and counters.

    Red when a kind of item is left out, or an attribute of one.
    """
    old = Protected(store=service.store)
    old.send(POST)
    metered = Metered(store=service.store, clock=old.clock, active_keys=5)
    metered.ask(1)

    moved = copied(service, old)

    assert moved.is_whole
    assert contents(service, NEW) == contents(service, TABLE)
    new = on(service, NEW, old)
    assert is_replay(new.send(POST))
    assert new.runs == []


def test_a_pause_stays_where_it_was_made(service: Operating) -> None:
    """The old table may still be paused when the new one serves."""
    old = Protected(store=service.store)
    stop = Pause(scope=PauseScope.ALL, name=EVERYTHING, reason="moved", by="ops", since_ms=1)
    service.store.pause(stop)

    assert copied(service, old).is_whole
    assert contents(service, NEW) == {}


def test_what_has_expired_is_left_behind(service: Operating) -> None:
    """A record past its TTL counts as absent, whether or not DynamoDB has deleted it."""
    old = Protected(store=service.store)
    old.send(POST)
    old.clock.advance(48 * 3_600_000)

    assert (copied(service, old).expired, contents(service, NEW)) == (1, {})


def test_a_running_attempt_is_copied_once_it_has_ended(service: Operating) -> None:
    """Its end is written to the old table, so an earlier copy would be wrong.

    Red when an open lease is copied: the new table would call the outcome unknown.
    """
    old = Protected(store=service.store)

    during = while_running(old, POST, lambda: copied(service, old))

    assert (during.running, during.is_whole, contents(service, NEW)) == (1, False, {})
    after = copied(service, old)
    assert (after.written, after.is_whole) == (1, True)
    assert contents(service, NEW) == contents(service, TABLE)


def test_what_the_old_table_writes_after_a_pass_arrives_in_the_next(service: Operating) -> None:
    """The old table serves between two passes, and then both tables are the same."""
    old = Protected(store=service.store)
    old.then = fails(NotExecuted())
    old.send(POST)
    copied(service, old)
    old.then = None
    old.send(POST)
    old.send(OTHER)

    assert copied(service, old) == Moved(read=2, written=2)
    assert contents(service, NEW) == contents(service, TABLE)
    assert copied(service, old) == Moved(read=2, present=2)


def test_a_key_that_began_anew_replaces_its_former_operation(service: Operating) -> None:
    """After the expiry, the same key is another operation, whose version is smaller."""
    old = Protected(store=service.store)
    old.then = fails(NotExecuted())
    for _ in range(3):
        old.send(POST)
    copied(service, old)
    old.clock.advance(48 * 3_600_000)
    old.then = None
    old.send(POST)

    assert copied(service, old).written == 1
    assert contents(service, NEW) == contents(service, TABLE)


def test_what_the_new_table_has_taken_further_is_never_taken_back(service: Operating) -> None:
    """A pass that comes too late changes nothing that the new table has decided."""
    old = Protected(store=service.store)
    old.then = fails(NotExecuted())
    old.send(POST)
    copied(service, old)
    new = on(service, NEW, old)
    new.send(POST)
    before = contents(service, NEW)

    assert copied(service, old) == Moved(read=1, present=1)
    assert contents(service, NEW) == before


@pytest.mark.parametrize("change", [{"last_error": "Other"}, {"owner": "owner-2"}])
def test_what_both_tables_have_changed_is_told(service: Operating, change: dict[str, Any]) -> None:
    """Both have served at the same time: a person must know, and neither is overwritten."""
    old = Protected(store=service.store)
    waiting = record(lease_until_ms=1)
    for table, each in ((TABLE, waiting), (NEW, replace(waiting, **change))):
        service.client.put_item(TableName=table, Item=attribute_values(each))
    before = contents(service, NEW)

    moved = copied(service, old)

    assert (moved.conflicts, moved.is_whole) == (1, False)
    assert contents(service, NEW) == before


def test_an_attempt_that_runs_on_the_new_table_is_not_overwritten(service: Operating) -> None:
    """Both tables have resumed one operation, and the old one has gone further: a person must know.

    Red when the higher version alone decides.
    """
    old = Protected(store=service.store)
    now_ms = old.clock.now_ms()
    ended = record(rev=7, lease_until_ms=now_ms - 1)
    for table, each in (
        (TABLE, ended),
        (NEW, replace(ended, rev=5, owner="owner-2", lease_until_ms=now_ms + 60_000)),
    ):
        service.client.put_item(TableName=table, Item=attribute_values(each))
    before = contents(service, NEW)

    moved = copied(service, old)

    assert (moved.written, moved.conflicts, contents(service, NEW)) == (0, 1, before)


def test_a_key_that_both_tables_have_reserved_is_told(service: Operating) -> None:
    """Neither of its two operations is overwritten, whichever began first."""
    old = Protected(store=service.store)
    new = on(service, NEW, old)
    for first, second in ((old, new), (new, old)):
        for each, event in ((first, POST), (second, POST)):
            each.clock.advance(1_000)
            each.send(event)
        before = contents(service, NEW)

        moved = copied(service, old)

        assert (moved.written, moved.conflicts, contents(service, NEW)) == (0, 1, before)
        for table in (TABLE, NEW):
            for pk in contents(service, table):
                service.client.delete_item(TableName=table, Key={"pk": {"S": pk}})


class Cut(Exception):
    """The process was killed."""


def cut_at(service: Operating, number: int, *, is_applied: bool) -> Callable[[], None]:
    """Kill the command at the put of this number, before or after it; undo it by calling this."""
    puts = 0

    def counted(**_: object) -> None:
        nonlocal puts
        puts += 1
        if puts == number:
            raise Cut

    moment = f"{'after' if is_applied else 'before'}-call.dynamodb.PutItem"
    service.client.meta.events.register(moment, counted)
    return lambda: service.client.meta.events.unregister(moment, counted)


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_interrupted_copy_is_repeated(
    service: Operating, number: int, *, is_applied: bool
) -> None:
    """Killed before or after any write, and run again: both tables are the same, once.

    Red when an interrupted pass leaves something that the next one does not write or accept.
    """
    old = Protected(store=service.store)
    for name in "abc":
        old.send(with_key(POST, f"the-key-of-a-client-{name}"))
    go_on = cut_at(service, number, is_applied=is_applied)
    with pytest.raises(Cut):
        copied(service, old)
    go_on()

    again = copied(service, old)

    assert (again.written, again.present) == (
        3 - number + (not is_applied),
        number - 1 + is_applied,
    )
    assert contents(service, NEW) == contents(service, TABLE)


def test_the_command_says_what_is_left(service: Operating) -> None:
    """Exit status 1 until everything is copied; each pass has its audit lines."""
    waiting = record(lease_until_ms=4_000_000_000_000, expires_at_s=None)
    service.client.put_item(TableName=TABLE, Item=attribute_values(waiting))

    assert service.run("move", "--to", NEW, *REASON) == 1
    assert "Attempts still run" in service.out
    ended = attribute_values(replace(waiting, lease_until_ms=1, rev=8))
    service.client.put_item(TableName=TABLE, Item=ended)
    assert service.run("move", "--to", NEW, *REASON) == 0

    assert contents(service, NEW) == {waiting.pk: items(service.client)[0]}
    assert [line[:2] for line in service.audited()] == [
        ("move", "intended"),
        ("move", "not-whole"),
        ("move", "intended"),
        ("move", "done"),
    ]


def test_a_pass_long_after_the_move_is_refused(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ended on the new table, and was deleted there, is not brought back as it was before,
    by a late pass or on the way back; unless a person says that the new table has not served.

    Red when the old table's open records are written again, and their work begins anew.
    """
    old = Protected(store=service.store)
    old.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        old.send(POST)
    assert service.run("move", "--to", NEW, *REASON) == 0
    (pk,) = contents(service, NEW)
    service.client.delete_item(TableName=NEW, Key={"pk": {"S": pk}})
    monkeypatch.setattr(move_command, "_LATE_MS", -1)

    assert service.run("move", "--to", NEW, *REASON) == 1
    assert "is still open in idempotency-under-test, and would begin again" in service.err
    assert contents(service, NEW) == {}
    assert service.run("move", "--to", TABLE, *REASON, table=NEW) == 1
    assert service.run("move", "--to", NEW, "--even-if", "late", *REASON) == 0
    assert [*contents(service, NEW)] == [pk]


def test_a_table_is_not_copied_to_itself(service: Operating) -> None:
    """The two options name two tables."""
    assert service.run("move", "--to", TABLE, *REASON) == 2
    assert "the same table" in service.err


def test_the_old_table_may_be_named_by_from(service: Operating) -> None:
    """As the guide has it: `oncekey move --from OLD --to NEW`."""
    service.client.put_item(TableName=TABLE, Item={"pk": {"S": "an item"}})
    line = ["move", "--from", TABLE, "--to", NEW, "--audit-table", AUDIT, "--region", REGION]

    assert cli.main([*line, *REASON]) == 0
    assert contents(service, NEW).keys() == {"an item"}


def test_an_old_table_that_is_named_twice_is_refused(service: Operating) -> None:
    """`--from` and `--table` say the same, and nobody guesses which of them is meant.

    Red when the last one counts without a word.
    """
    assert service.run("move", "--from", NEW, "--to", "third", *REASON) == 2
    assert "--from and --table both name the old table" in service.err


def test_a_table_that_is_not_there_gets_no_whole_pass(service: Operating) -> None:
    """A misspelt name is told, also if there is nothing to copy.

    Red when the audit table says that everything is in a table that nobody has made.
    """
    assert service.run("move", "--to", f"{NEW}s", *REASON) == 2
    assert "correct the name" in service.err
    for source, to in ((TABLE, MESSAGES), (MESSAGES, NEW)):
        assert service.run("move", "--to", to, *REASON, table=source) == 2
        assert f"{MESSAGES} is no table of records" in service.err
    assert service.audited() == []
