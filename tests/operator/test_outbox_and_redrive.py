"""`oncekey outbox` and `oncekey redrive`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from oncekey.outbox.envelope import sealed
from oncekey.record.message import Message
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.store.dynamodb.outbox import OutboxTable, message_item
from oncekey.value import replace
from oncekey_local import cli
from oncekey_operator.commands.naming import census
from oncekey_operator.messages import queues
from tests.support.dynamodb import TABLE
from tests.support.operating import (
    AUDIT,
    MESSAGES,
    REGION,
    Operating,
    operating,
    queue_with_dead_letters,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef

WRITTEN_MS = 1_700_000_000_000
REASON = ("--reason", "the queue is mended", "--yes")


@pytest.fixture
def service(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Operating]:
    """A service's tables. Nobody waits for a message that is not there."""
    monkeypatch.setattr(queues, "_WAIT_S", 0)
    with operating(capsys) as found:
        yield found


def message(name: str, *, after_ms: int = 0) -> Message:
    """A message with a secret in its payload."""
    return Message(
        id=name,
        topic="payment.requested",
        payload='"a-card-number"',
        operation_id=f"op-{name}",
        operation="POST /payments",
        tenant="acme",
        created_at_ms=WRITTEN_MS + after_ms,
    )


def publish(service: Operating, *messages: Message) -> OutboxTable:
    """Put messages into the outbox table."""
    for each in messages:
        service.client.put_item(TableName=MESSAGES, Item=message_item(each))
    return OutboxTable(MESSAGES, client=service.client)


def test_the_outbox_shows_what_waits_and_why_something_is_set_aside(service: Operating) -> None:
    """The oldest first, with exit status 1 if a person is needed. Payloads are not shown."""
    assert service.run("outbox") == 0
    table = publish(service, message("b", after_ms=5), message("a"))
    assert service.run("outbox") == 0
    table.count_try("b")
    table.set_aside("b", "InvalidMessageContents", WRITTEN_MS + 9)

    assert service.run("outbox") == 1

    rows = service.out.splitlines()
    assert [row.split()[0] for row in rows[1:3]] == ["a", "b"]
    assert "set aside: InvalidMessageContents" in rows[2]
    assert rows[-1] == "1 waiting, 1 set aside"
    assert "card" not in service.out
    only = service.json("outbox", "--set-aside")["messages"]
    assert [(each["id"], each["tries"], each["set_aside_at"]) for each in only] == [
        ("b", 1, "2023-11-14T22:13:20.009Z")
    ]


def test_an_item_with_a_fraction_in_a_number_is_shown_and_discarded(service: Operating) -> None:
    """The library writes none, and a person must be able to get rid of one.

    Red when no command can read an outbox with such an item.
    """
    table = publish(service, message("b", after_ms=5))
    odd = message_item(message("a")) | {"created_at": {"N": f"{WRITTEN_MS}.5"}}
    service.client.put_item(TableName=MESSAGES, Item=odd)
    table.set_aside("a", "the item is no message of oncekey", WRITTEN_MS)

    assert service.run("outbox") == 1
    assert service.run("redrive", "--discard", "a", *REASON) == 0
    assert service.run("outbox") == 0


def test_a_long_outbox_is_not_read_whole(service: Operating) -> None:
    """The command says that there is more."""
    publish(service, *(message(f"m{number}") for number in range(4)))

    assert service.run("outbox", "--limit", "3") == 0
    assert "more than 3 are there" in service.out


def test_a_message_that_was_set_aside_is_put_back(service: Operating) -> None:
    """One by its id, or all of them; each has its audit lines, and a dry run changes nothing."""
    table = publish(service, message("a"), message("b"), message("c"))
    for name in "ab":
        table.set_aside(name, "no", WRITTEN_MS)

    assert service.json("redrive", "--set-aside", "--dry-run") == {
        "found": 2,
        "redriven": 0,
        "dry_run": True,
    }
    assert service.run("outbox") == 1
    assert service.run("redrive", "a", *REASON) == 0
    assert service.json("redrive", "--set-aside", *REASON)["redriven"] == 1

    assert service.run("outbox") == 0
    assert [line[:2] for line in service.audited()] == [
        ("redrive", "intended"),
        ("redrive", "done"),
    ] * 2
    assert service.run("redrive", "a", *REASON) == 1
    assert "no message a is set aside" in service.err


def test_dead_letters_go_back_to_their_queue(service: Operating) -> None:
    """As many as were asked for, with body and attributes; a dry run shows them and moves none."""
    sqs, work, dead = queue_with_dead_letters()
    service.queue_url = work
    kept: Mapping[str, MessageAttributeValueTypeDef] = {
        "trace": {"DataType": "String", "StringValue": "t-1"}
    }
    for number in range(12):
        body = sealed(message(f"m{number}"))
        sqs.send_message(QueueUrl=dead, MessageBody=body, MessageAttributes=kept)

    assert service.run("redrive", "--dead-letters", "--dry-run") == 0
    assert "12 messages would be sent again" in service.out
    assert "payment.requested" in service.out
    assert "SQS MESSAGE ID" in service.out  # the worker's log lines have it
    assert service.run("doctor") == 1
    assert "dead letters: about 12" in service.out
    assert service.json("redrive", "--dead-letters", "--limit", "11", *REASON)["redriven"] == 11

    found = []
    for _ in range(2):
        answer = sqs.receive_message(
            QueueUrl=work, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        found += answer["Messages"]
    assert len(found) == 11
    assert {each["MessageAttributes"]["trace"]["StringValue"] for each in found} == {"t-1"}
    assert {json.loads(each["Body"])["topic"] for each in found} == {"payment.requested"}
    left = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])
    assert left["Attributes"]["ApproximateNumberOfMessages"] == "1"
    assert service.audited()[-1] == ("redrive", "done", "the queue is mended")


def test_one_dead_letter_is_discarded(service: Operating) -> None:
    """It is shown without its payload first, by either of its ids. The others stay, and can be
    received at once; the audit table says who did it.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters()
    names = [f"m{number}" for number in range(12)]
    ids = [
        sqs.send_message(QueueUrl=dead, MessageBody=sealed(message(name)))["MessageId"]
        for name in names
    ]

    assert service.run("redrive", "--discard", "m4", "--dry-run") == 0
    assert "op-m4" in service.out
    assert "card" not in service.out
    assert service.json("redrive", "--discard", "m4", "--dry-run")["discarded"] is False
    assert service.run("redrive", "--discard", ids[7], "--reveal", *REASON) == 0
    assert "card" in service.out
    assert "`oncekey show op-m7`" in service.out
    assert service.json("redrive", "--discard", "m4", *REASON)["discarded"] is True
    assert service.run("redrive", "--discard", "m4", *REASON) == 1

    assert service.json("redrive", "--dead-letters", "--dry-run")["found"] == 10
    assert [line[:2] for line in service.audited()] == [
        ("discard", "intended"),
        ("discard", "done"),
    ] * 2


@pytest.mark.parametrize("body", ["[" * 100_000, '{"id": ' * 5_000, "9" * 5_000, '{"id": 1}'])
def test_a_dead_letter_that_nobody_can_read_is_discarded(service: Operating, body: str) -> None:
    """A body nested too deep for the worker is one that never succeeds. It hides no other, and the
    console counts it, too.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters()
    sent = sqs.send_message(QueueUrl=dead, MessageBody=body)["MessageId"]
    sqs.send_message(QueueUrl=dead, MessageBody=sealed(message("m1")))

    assert service.json("redrive", "--dead-letters", "--dry-run")["found"] == 2
    assert service.json("redrive", "--discard", sent, *REASON)["discarded"] is True
    assert service.json("redrive", "--dead-letters", *REASON)["redriven"] == 1


def test_a_message_that_was_set_aside_is_discarded(service: Operating) -> None:
    """One that waits is not: the relay sends it."""
    publish(service, message("a"), message("b")).set_aside("a", "no", WRITTEN_MS)
    _, service.queue_url, _ = queue_with_dead_letters()

    assert service.run("redrive", "--discard", "a", *REASON) == 0
    assert service.run("redrive", "--discard", "b", *REASON) == 1

    assert [each["id"] for each in service.json("outbox")["messages"]] == ["b"]
    assert service.audited()[-1][:2] == ("discard", "done")


def test_no_message_is_removed_without_its_payload(service: Operating) -> None:
    """A large payload is in the response bucket. Where that is not named, nothing is deleted.

    Red when a tenant's data are said to be erased, and the payload stays.
    """
    at = StoredRef(place=Place.OBJECT, name="outbox/a", digest="0" * 43)
    large = replace(message("a"), payload="", payload_ref=at)
    publish(service, large).set_aside("a", "no", WRITTEN_MS)
    tenants = ("--tenant", "acme", "--even-if", "unsent")
    _, service.queue_url, _ = queue_with_dead_letters()

    assert service.run("redrive", "--discard", "a", *REASON) == 1
    assert "say --bucket NAME" in service.err
    assert service.run("erase", *tenants, "--expect", census([]), *REASON) == 1
    assert "say --bucket NAME" in service.err

    assert [each["id"] for each in service.json("outbox")["messages"]] == ["a"]
    assert service.audited() == []


def test_an_empty_id_discards_nothing(service: Operating) -> None:
    """A script whose variable is unset names no message: not even one that has no id of ours."""
    sqs, service.queue_url, dead = queue_with_dead_letters()
    sqs.send_message(QueueUrl=dead, MessageBody="no message of ours")

    assert service.run("redrive", "--discard", "", *REASON) == 2

    assert service.json("redrive", "--dead-letters", "--dry-run")["found"] == 1
    assert service.audited() == []


def test_nobody_who_was_not_asked_discards_a_message(service: Operating) -> None:
    """Without --yes and a terminal, the message is where it was, and is not hidden."""
    sqs, service.queue_url, dead = queue_with_dead_letters()
    sqs.send_message(QueueUrl=dead, MessageBody="no message of ours")

    (found,) = sqs.receive_message(QueueUrl=dead, VisibilityTimeout=0)["Messages"]
    assert service.run("redrive", "--discard", found["MessageId"], "--reason", "r") == 2

    assert service.json("redrive", "--dead-letters", "--dry-run")["found"] == 1
    assert service.audited() == []


def test_dead_letters_of_a_fifo_queue_go_back_in_their_order(service: Operating) -> None:
    """Each keeps its group. Its deduplication id is new: the queue knows the first one for five
    minutes, and would take the message and lose it.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters(is_fifo=True)
    for number in range(12):
        sqs.send_message(
            QueueUrl=dead,
            MessageBody=sealed(message(f"m{number}")),
            MessageGroupId=f"g{number % 2}",
            MessageDeduplicationId=f"m{number}",
        )

    assert service.json("redrive", "--dead-letters", *REASON)["redriven"] == 12

    arrived: dict[str, list[str]] = {"g0": [], "g1": []}
    while found := sqs.receive_message(
        QueueUrl=service.queue_url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    ).get("Messages"):
        for each in found:
            arrived[each["Attributes"]["MessageGroupId"]].append(json.loads(each["Body"])["id"])
            sqs.delete_message(QueueUrl=service.queue_url, ReceiptHandle=each["ReceiptHandle"])
    assert arrived == {
        "g0": [f"m{number}" for number in range(0, 12, 2)],
        "g1": [f"m{number}" for number in range(1, 12, 2)],
    }


def test_dead_letters_deep_in_a_group_are_not_said_to_be_gone(service: Operating) -> None:
    """SQS shows no more of a group that is looked at. A dry run and a discard that see ten of
    twelve say so, and do not let a person believe that the others are not there.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters(is_fifo=True)
    for number in range(12):
        body = sealed(message(f"m{number}"))
        sqs.send_message(
            QueueUrl=dead,
            MessageBody=body,
            MessageGroupId="acme",
            MessageDeduplicationId=f"m{number}",
        )

    assert service.run("redrive", "--dead-letters", "--dry-run") == 0
    assert "There are about 12. SQS shows only the first messages of a group" in service.err
    assert service.run("redrive", "--discard", "m11", *REASON) == 1
    assert "SQS shows only the first messages of a group" in service.err

    assert service.run("redrive", "--discard", "m9", *REASON) == 0
    assert service.json("redrive", "--dead-letters", *REASON)["redriven"] == 11


def test_dead_letters_of_a_fair_queue_go_back(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standard queue's messages may have groups, which they keep. They get no deduplication id,
    which SQS refuses there. The refusal is made here: moto takes the id.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters()
    sqs.send_message(QueueUrl=dead, MessageBody=sealed(message("m0")), MessageGroupId="acme")
    of_botocore: Any = BaseClient
    call = of_botocore._make_api_call

    def strict(client: BaseClient, name: str, given: dict[str, Any]) -> Any:
        if any("MessageDeduplicationId" in each for each in given.get("Entries", [])):
            raise ClientError({"Error": {"Code": "InvalidParameterValue"}}, name)
        return call(client, name, given)

    monkeypatch.setattr(BaseClient, "_make_api_call", strict)

    assert service.json("redrive", "--dead-letters", *REASON)["redriven"] == 1
    (found,) = sqs.receive_message(QueueUrl=service.queue_url, MessageSystemAttributeNames=["All"])[
        "Messages"
    ]
    assert found["Attributes"]["MessageGroupId"] == "acme"


def test_a_dead_letter_that_the_queue_refuses_is_not_done(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status, the counts and the audit table say that not all were moved, and the refused
    one can be looked at, at once. The answer is made here: moto refuses no entry of a batch.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters()
    for text in ("refused", "a", "b"):
        sqs.send_message(QueueUrl=dead, MessageBody=text)
    of_botocore: Any = BaseClient
    call = of_botocore._make_api_call

    def refusing(client: BaseClient, name: str, given: dict[str, Any]) -> Any:
        entries = given.get("Entries", [])
        if name != "SendMessageBatch":
            return call(client, name, given)
        taken = [each for each in entries if each["MessageBody"] != "refused"]
        answer = call(client, name, {**given, "Entries": taken}) if taken else {}
        failed = [{"Id": each["Id"], "SenderFault": True} for each in entries if each not in taken]
        return {**answer, "Failed": failed}

    monkeypatch.setattr(BaseClient, "_make_api_call", refusing)

    assert service.run("redrive", "--dead-letters", *REASON) == 1
    assert "2 messages sent again" in service.out
    assert "has refused a dead letter: 1 are left where they were" in service.err
    assert service.json("redrive", "--dead-letters", *REASON)["found"] == 1
    assert service.json("redrive", "--dead-letters", "--dry-run")["found"] == 1
    assert [line[1] for line in service.audited()] == ["intended", "refused in part"] * 2


def test_a_dead_letter_cannot_write_to_the_terminal(service: Operating) -> None:
    """Whoever may send to the queue chooses what stands in its table, and no more."""
    sqs, service.queue_url, dead = queue_with_dead_letters()
    sqs.send_message(QueueUrl=dead, MessageBody=sealed(message("a\x1b]0;title\x07")))

    assert service.run("redrive", "--dead-letters", "--dry-run") == 0
    assert "a�]0;title�" in service.out


def test_a_dead_letter_that_is_shown_cannot_write_to_the_terminal(service: Operating) -> None:
    """Before it is discarded, a person sees its whole text, and what it says is no command.

    Red when only tables replace control characters.
    """
    sqs, service.queue_url, dead = queue_with_dead_letters()
    forged = replace(message("a"), topic="x\x1b[2K\x1b[1A", operation_id="$(reboot)\x1b[8m")
    body = sealed(forged) + "\n\x1b]0;title\x07\u202e"
    sqs.send_message(QueueUrl=dead, MessageBody=sealed(forged))
    (name,) = (sqs.send_message(QueueUrl=dead, MessageBody=body)["MessageId"],)

    assert service.run("redrive", "--discard", name, "--reveal", *REASON) == 0
    assert "�]0;title��" in service.out
    assert service.run("redrive", "--discard", "a", *REASON) == 0

    assert "topic         x�[2K�[1A" in service.out
    assert "`oncekey show '$(reboot)�[8m'`" in service.out
    assert not {"\x1b", "\x07", "\u202e"} & {*service.out}


def test_large_dead_letters_go_back_in_smaller_calls(service: Operating) -> None:
    """Ten together may be more than SQS takes in one call."""
    sqs, work, dead = queue_with_dead_letters()
    service.queue_url = work
    for _ in range(6):
        sqs.send_message(QueueUrl=dead, MessageBody="x" * 200_000)

    assert service.json("redrive", "--dead-letters", *REASON)["redriven"] == 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set-aside",), "say --reason TEXT"),
        (("--dead-letters", *REASON), "no queue is named"),
        (("--set-aside", "--reason", "r"), "say --yes"),
    ],
)
def test_a_redrive_says_what_it_needs(
    service: Operating, arguments: tuple[str, ...], sentence: str
) -> None:
    """Exit status 2, and nothing was sent."""
    table = publish(service, message("a"))
    table.set_aside("a", "no", WRITTEN_MS)

    assert service.run("redrive", *arguments) == 2
    assert sentence in service.err
    assert service.run("outbox") == 1


def test_an_outbox_that_nobody_names_is_not_said_to_be_empty(service: Operating) -> None:
    """`--table` alone does not say whether there is an outbox with the tenant's messages. That they
    were not looked for is told, and none of them is said to be deleted.

    Red when `--even-if unsent` prints `0 of 0`.
    """
    tenant, where = ("erase", "--tenant", "acme", *REASON), ("--table", TABLE, "--region", REGION)
    census_of_none = ("--expect", census([]), "--audit-table", AUDIT)

    assert cli.main([*tenant, *where, *census_of_none, "--even-if", "unsent"]) == 2
    assert "say --outbox-table NAME" in service.capsys.readouterr().err
    assert cli.main([*tenant, *where, *census_of_none]) == 0
    assert "not looked at: the outbox" in service.capsys.readouterr().out
    assert service.run(*tenant, "--expect", census([])) == 0
    assert "not looked at" not in service.out
