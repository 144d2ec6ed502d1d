"""`oncekey dev` with streams and queues: real functions, killed and timed out in the middle."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config

from tests.support.dev_service import is_alive, running, send, watched
from tests.support.looking import until
from tests.support.sample_event_desk import Desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.dev_process import DevProcess

EVENTS = "tests.support.sample_event_service:SERVICE"
BROKEN = "tests.support.sample_broken_pump:SERVICE"
EMPTY = {"visible": 0, "in_flight": 0, "delayed": 0, "dead_letters": 0}
QUICK: dict[str, Any] = {"visibility_timeout_s": 2, "retry_s": 0.05}


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """Where the functions come to be told what to do."""
    with Desk() as desk:
        yield desk


@pytest.fixture(scope="module")
def dev(desk: Desk) -> Iterator[DevProcess]:
    """The service; each test leaves its queues empty."""
    with running(EVENTS, env=desk.environment, **QUICK) as process:
        yield process


def client_of(dev: DevProcess, aws_service: str) -> Any:
    """A client of the local store."""
    return boto3.client(
        aws_service,  # type: ignore[call-overload]
        endpoint_url=dev.store_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}),
    )


def put(dev: DevProcess, table: str, key: str) -> None:
    """Writes an item."""
    client_of(dev, "dynamodb").put_item(TableName=table, Item={"pk": {"S": key}})


def send_work(dev: DevProcess, *bodies: str) -> None:
    """Sends messages to the worker's queue, in one call."""
    sqs = client_of(dev, "sqs")
    entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
    queue = sqs.get_queue_url(QueueName="events-local-work")["QueueUrl"]
    sqs.send_message_batch(QueueUrl=queue, Entries=entries)


def set_faults(dev: DevProcess, **faults: object) -> None:
    """Sets faults of the store."""
    answer = send(dev.store_url, "POST", "/_faults", body=json.dumps(faults).encode())
    assert answer.status == 200


def test_whole_way() -> None:
    """An item's insertion reaches a function, which sends it on to a queue, and that to another.

    The functions know table and queue from their environment alone.
    """
    keys = [f"payment-{number}" for number in range(12)]
    with running("tests.support.sample_event_service:CHAIN") as dev:
        for key in keys:
            put(dev, "chain-local-outbox", key)
        dynamodb = client_of(dev, "dynamodb")

        def left(table: str) -> set[str]:
            items = dynamodb.scan(TableName=f"chain-local-{table}", ConsistentRead=True)["Items"]
            return {item["pk"]["S"] for item in items}

        until(lambda: (left("done"), left("outbox")) == (set(keys), set()))
        until(lambda: dev.queues() == {"ordered": EMPTY})
        assert dev.stop() == 0


def test_processes_are_warm(dev: DevProcess) -> None:
    """Each triggered function has one process before anything has called it."""
    functions = [one["function"] for one in dev.processes() if one["role"] == "function"]
    assert sorted(functions) == ["relay", "worker"]


def test_worker_is_killed(dev: DevProcess, desk: Desk) -> None:
    """A message whose worker was killed with it comes again, to another process."""
    send_work(dev, "a")
    visit = desk.visit()
    with watched([visit.pid]) as wait:
        assert dev.kill_busy("worker") == visit.pid
        wait()
    again = desk.visit()
    assert (again.bodies, again.pid != visit.pid) == (["a"], True)
    assert again.records[0]["messageId"] == visit.records[0]["messageId"]
    assert again.records[0]["attributes"]["ApproximateReceiveCount"] == "2"
    again.answer()
    until(lambda: dev.queues()["work"] == EMPTY)


def test_dead_letters_and_redrive(dev: DevProcess, desk: Desk) -> None:
    """A poisoned message ends as a dead letter; redriven after its cause is gone, it is done."""
    send_work(dev, "poison", "good")
    visit = desk.visit()
    assert visit.bodies == ["poison", "good"]
    visit.answer_failed(0)
    again = desk.visit()
    assert again.bodies == ["poison"]
    again.fail()
    until(lambda: dev.queues()["work"] == EMPTY | {"dead_letters": 1})
    assert dev.redrive("work") == 1
    last = desk.visit()
    assert last.bodies == ["poison"]
    assert last.records[0]["attributes"]["ApproximateReceiveCount"] == "1"
    last.answer()
    until(lambda: dev.queues()["work"] == EMPTY)
    assert "[queue work -> worker] 2 messages, 1 failed\n" in dev.log()
    assert "[queue work -> worker] 1 messages, 1 failed: function-error\n" in dev.log()


def test_relay_dies(dev: DevProcess, desk: Desk) -> None:
    """A stream's batch whose function died is tried again before the next, then told of."""
    for key in ("1", "2", "3"):
        put(dev, "events-local-outbox", key)
    keys = (visit := desk.visit()).keys
    visit.leave()
    again = desk.visit()
    assert (again.function, again.keys, again.pid != visit.pid) == ("relay", keys, True)
    again.answer_failed(len(keys) - 1)
    seen = [*keys]
    while len(seen) < 3:
        seen += (visit := desk.visit()).keys
        visit.answer()
    assert seen == ["1", "2", "3"]
    until(lambda: dev.queues()["escalated"] == EMPTY | {"visible": 1})


def test_store_is_down(dev: DevProcess, desk: Desk) -> None:
    """While the store is down queues are said to be unknown; afterwards everything goes on."""
    set_faults(dev, down=True)
    with pytest.raises(RuntimeError, match="answered with 503: .*the store does not answer"):
        dev.queues()
    with pytest.raises(RuntimeError, match="answered with 503"):
        dev.redrive("work")
    until(lambda: "[queue work -> worker] waits for the store" in dev.log())
    until(lambda: "[stream outbox -> relay] waits for the store" in dev.log())
    set_faults(dev, down=False)
    send_work(dev, "a")
    visit = desk.visit()
    visit.answer()
    put(dev, "events-local-outbox", "after the outage")
    (relay := desk.visit()).answer()
    assert (visit.bodies, relay.keys) == (["a"], ["after the outage"])
    until(lambda: dev.queues()["work"] == EMPTY)
    assert "[queue work -> worker] the store answers again" in dev.log()


def test_control(dev: DevProcess) -> None:
    """Queues are shown to a GET, redriven by a POST, and unknown ones are 404, which says where
    the known ones are shown.
    """
    assert list(dev.queues()) == ["work", "ordered", "escalated"]
    for method, path in (
        ("POST", "/_dev/redrive?queue=none"),
        ("POST", "/_dev/redrive"),
        ("GET", "/_dev/redrive?queue=work"),
        ("POST", "/_dev/queues"),
    ):
        assert send(dev.url, method, path).status == 404
    refused = send(dev.url, "POST", "/_dev/redrive?queue=none").json()["message"]
    assert refused == "there is no queue 'none': GET /_dev/queues shows those there are"
    assert f"queues     {dev.url}/_dev/queues" in dev.log()


def test_timeout() -> None:
    """A worker that does not end is killed at its timeout, and its message comes again."""
    with Desk() as desk, running(EVENTS, env=desk.environment, timeout_s=1, **QUICK) as dev:
        send_work(dev, "a")
        visit = desk.visit()
        with watched([visit.pid]) as wait:
            visit.spin()
            wait()
        again = desk.visit()
        assert again.bodies == ["a"]
        again.answer()
        until(lambda: dev.queues()["work"] == EMPTY)
        assert "1 messages, 1 failed: timed-out\n" in dev.log()


def test_broken_pump() -> None:
    """A pump that fails for a reason of its own ends the service, with its traceback."""
    with Desk() as desk, running(BROKEN, env=desk.environment) as dev:
        pids = dev.pids()
        send_work(dev, "a")
        assert dev.process.wait(timeout=60) == 1
        assert "LookupError: this pump is broken" in dev.log()
        assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.proof)]
)
def test_ends(number: signal.Signals) -> None:
    """The service ends with its pumps, also in the middle of a batch, and leaves nothing behind."""
    with Desk() as desk, running(EVENTS, env=desk.environment, **QUICK) as dev:
        send_work(dev, "a")
        put(dev, "events-local-outbox", "1")
        visits = [desk.visit(), desk.visit()]
        assert {visit.function for visit in visits} == {"worker", "relay"}
        pids = dev.pids()
        with watched(pids) as wait:
            assert dev.stop(number) == (0 if number is signal.SIGINT else -number)
            wait()
        assert not any(is_alive(pid) for pid in pids)
        assert "Traceback" not in dev.log()
        # Nothing has failed: what was not finished is given up, and not tried again.
        assert "failed" not in dev.log()
