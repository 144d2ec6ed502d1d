"""How long the store may take: time-outs, tries, and what is left of the invocation."""

from __future__ import annotations

import contextlib
import logging
import math
import platform
import socket
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import botocore
import pytest
from botocore.config import Config

from oncekey import DynamoDBStore, idempotent, single_tenant
from oncekey.clock import SystemClock
from oncekey.settings import STORE_TIMEOUT_MS, TRANSPORTS
from oncekey.store.dynamodb.client import longest_call_ms, own_client, warn_about
from oncekey.testing.memory import ManualClock
from tests.support.events import load
from tests.support.protected import Context, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator

POST = load("apigw_http_v2_post")


class CountedClock(SystemClock):
    """The real clock, which remembers how long it was asked to pause and does not."""

    def __init__(self) -> None:
        self.paused_ms = 0

    def pause(self, duration_ms: int) -> None:
        """Remember."""
        self.paused_ms += duration_ms


@contextlib.contextmanager
def server_that_never_answers() -> Iterator[tuple[str, list[socket.socket]]]:
    """The address of a server that accepts connections and says nothing; and those connections."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(listener.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", accepted
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in accepted:
        connection.close()


@pytest.mark.case(21)
def test_our_own_client_has_short_timeouts_and_makes_one_try() -> None:
    """Our client waits 0.5 s for a connection and 1 s for an answer, and makes no second try.

    Red when the defaults of botocore (60 s, five attempts) come back.
    """
    config: Any = own_client(STORE_TIMEOUT_MS).meta.config

    assert (config.connect_timeout, config.read_timeout) == (0.5, 1.0)
    assert config.retries["total_max_attempts"] == 1
    assert DynamoDBStore("a-table").call_timeout_ms == 1_500


def test_our_own_client_asks_no_retry_handler() -> None:
    """After an answer, no handler of botocore's is asked whether to try again.

    Red when a release of botocore knows its handler by another name: calls then cost more.
    """
    client: Any = own_client(STORE_TIMEOUT_MS)

    assert client.meta.events.emit("needs-retry.dynamodb.PutItem") == []


@pytest.mark.parametrize(
    ("config", "longest_ms"),
    [
        (Config(), 5 * 120_000),
        (Config(connect_timeout=None, read_timeout=None), 5 * 120_000),
        (Config(retries={"mode": "adaptive"}), 3 * 120_000),
        (Config(retries={"total_max_attempts": 2}, connect_timeout=1, read_timeout=2), 6_000),
    ],
    ids=["defaults", "without time-outs", "its mode", "all of it"],
)
def test_a_client_of_the_users_takes_as_long_as_its_settings_and_botocores_defaults_allow(
    config: Config, longest_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What a client does not say is botocore's default: 60 s each, five attempts or three. A client
    whose call can outlive the function is told so.
    """
    client = SimpleNamespace(meta=SimpleNamespace(config=config))

    warn_about(client)

    assert longest_call_ms(client) == longest_ms
    assert ("can outlive the function" in caplog.text) is (longest_ms > 6_000)


def test_our_own_client_says_who_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The User-Agent names the SDK, Python, Lambda's runtime, the application and this library."""
    monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS_Lambda_python3.13")
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "payments")
    client: Any = own_client(STORE_TIMEOUT_MS)
    sdk = f"Boto3/{boto3.__version__} lang/python#{platform.python_version()}"
    us = f"Botocore/{botocore.__version__} oncekey"

    def stop(request: Any, **_others: Any) -> None:
        raise RuntimeError(request.headers["User-Agent"].decode())

    client.meta.events.register("before-send.dynamodb.GetItem", stop)

    with pytest.raises(RuntimeError) as sent:
        client.get_item(TableName="t", Key={"pk": {"S": "v1#"}})
    # Once Powertools is imported, botocore adds its name at the end.
    said = str(sent.value).partition(" PT/")[0]
    assert said == f"{sdk} exec-env/AWS_Lambda_python3.13 app/payments {us}"


@pytest.mark.case(21)
@pytest.mark.requirement("C9")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_server_that_accepts_and_never_answers_costs_three_tries_and_no_run(
    monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """A stalled DynamoDB: three tries of one connection each, then 503; the handler never starts.

    Red when a stalled call can outlive the function, or lets the handler run.
    """
    runs = []
    clock = CountedClock()
    with server_that_never_answers() as (address, accepted):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("ONCEKEY_TABLE", "a-table")
        monkeypatch.setenv("ONCEKEY_STORE_TIMEOUT_MS", "150")
        monkeypatch.setenv("ONCEKEY_TRANSPORT", transport)

        @idempotent(operation="POST /payments", tenant=single_tenant(), clock=clock)
        def handler(event: dict[str, object], _context: object) -> dict[str, object]:
            runs.append(event)
            return {"statusCode": 200}

        answer = handler(POST, None)

    assert problem_of(answer) == (503, "store-unavailable", True)
    assert runs == []
    assert len(accepted) == 3
    assert 0 < clock.paused_ms <= 150


class StalledTable:
    """A table whose every call of `operation` takes all the time that its client allows, and fails.

    Calls of other operations succeed at once. Nothing is sent, and only the test's clock moves.
    """

    def __init__(self, clock: ManualClock, operation: str) -> None:
        self.store = DynamoDBStore("a-table")
        client: Any = self.store._connected()
        timeouts = client.meta.config
        self.tries = 0

        def stall(model: Any, **_: object) -> tuple[SimpleNamespace, dict[str, Any]]:
            if model.name != operation:
                return SimpleNamespace(status_code=200), {}
            self.tries += 1
            clock.advance(int(1000 * (timeouts.connect_timeout + timeouts.read_timeout)))
            raise ConnectionError("no answer")

        client.meta.events.register("before-call.dynamodb", stall)


class LongestPauses(ManualClock):
    """A clock whose chance always makes pauses as long as they can be."""

    def random_fraction(self) -> float:
        """As near to one as there is."""
        return math.nextafter(1, 0)


@pytest.mark.case(21)
@pytest.mark.parametrize(
    ("left_ms", "tries", "most_ms"), [(None, 3, 5_000), (60_000, 3, 5_000), (3_000, 1, 2_750)]
)
def test_a_reserve_that_stalls_takes_no_longer_than_is_documented(
    left_ms: int | None, tries: int, most_ms: int
) -> None:
    """With our own timeouts all tries of a reserve and the pauses between them are over within five
    seconds, and with a quarter of a second left of the invocation.

    Red when timeouts, tries or pauses grow beyond that, or a try begins that could outlive the
    invocation.
    """
    clock = LongestPauses()
    table = StalledTable(clock, "PutItem")
    began_ms = clock.now_ms()

    answer = handler_on(table, clock)(POST, context_with(clock, left_ms))

    assert problem_of(answer)[1] == "store-unavailable"
    assert table.tries == tries
    assert clock.now_ms() - began_ms <= most_ms


@pytest.mark.case(21)
@pytest.mark.parametrize("left_ms", [3_000, 10_000, 60_000])
def test_a_completion_that_stalls_leaves_time_for_the_answer(left_ms: int) -> None:
    """However long an invocation is, tries and pauses of a completion end a quarter of a second
    before it does, no sooner than one more try would have needed, and the caller gets the answer.

    Red when a try begins that could outlive the invocation, or the tries are given up early.
    """
    clock = LongestPauses()
    table = StalledTable(clock, "UpdateItem")
    until_ms = clock.now_ms() + left_ms - 250
    longest_pause_ms = 1_000

    answer = handler_on(table, clock)(POST, context_with(clock, left_ms))

    assert answer["statusCode"] == 200
    one_more_try_ms = longest_pause_ms + table.store.call_timeout_ms
    assert until_ms - one_more_try_ms < clock.now_ms() <= until_ms


def handler_on(table: StalledTable, clock: ManualClock) -> Any:
    """A handler that takes no time, on that table."""

    @idempotent(operation="POST /payments", tenant=single_tenant(), store=table.store, clock=clock)
    def handler(_event: dict[str, object], _context: object) -> dict[str, object]:
        return {"statusCode": 200}

    return handler


def context_with(clock: ManualClock, left_ms: int | None) -> Context | None:
    """The context of an invocation with so much time left, or none."""
    return None if left_ms is None else Context(clock, clock.now_ms() + left_ms)


def test_no_try_begins_that_could_outlive_the_invocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With little time left a stalled call is not repeated, so that the refusal is still given."""

    class ShortContext:
        @staticmethod
        def get_remaining_time_in_millis() -> int:
            return 1_000

    with server_that_never_answers() as (address, accepted):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("ONCEKEY_TABLE", "a-table")
        monkeypatch.setenv("ONCEKEY_STORE_TIMEOUT_MS", "600")

        @idempotent(operation="POST /payments", tenant=single_tenant(), clock=CountedClock())
        def handler(_event: dict[str, object], _context: object) -> dict[str, object]:
            return {"statusCode": 200}

        answer = handler(POST, ShortContext())

    assert problem_of(answer)[1] == "store-unavailable"
    assert len(accepted) == 1


@pytest.mark.case(21)
def test_a_users_client_that_could_outlive_the_function_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client with botocore's defaults is used as it is, with a warning that names what is long.

    Red when a client passed in is not looked at.
    """
    with caplog.at_level(logging.WARNING, "oncekey"):
        DynamoDBStore("a-table", client=boto3.client("dynamodb"))

    (record,) = caplog.records
    assert "read_timeout is 60 s" in record.getMessage()
    assert "connect_timeout is 60 s" in record.getMessage()


def test_a_users_client_with_short_timeouts_is_used_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client with short time-outs and few tries draws no remark."""
    config = Config(
        connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 2, "mode": "standard"}
    )

    store = DynamoDBStore("a-table", client=boto3.client("dynamodb", config=config))

    assert caplog.records == []
    assert store.call_timeout_ms == 6_000
