"""What recorded operations log: what an author must know, and nothing of what was asked or done."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    CallNotAnswered,
    Completed,
    ConditionFailed,
    Final,
    NotExecuted,
    idempotent,
    single_tenant,
)
from oncekey.telemetry import requests as telemetry
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_key
from tests.support.every_outcome import BODY, CREDENTIAL, KEY, SECRET, TEXT
from tests.support.every_outcome import POST as REQUEST
from tests.support.protected import Protected, answers, fails
from tests.support.recorded_functions import Function
from tests.support.routes import Service
from tests.support.steps import (
    FAILED,
    LEASE_MS,
    POST,
    Action,
    Steps,
    caught,
    commit,
    finds,
    meanwhile,
    noise,
    raises,
    settler,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey import Operation

RESULT = "what-the-provider-answered"
WRITTEN = "what-was-written-to-a-table"
SENT = "what-a-message-says"
ANSWER = "what-the-client-is-told"
CONTENTS = [KEY, BODY, CREDENTIAL, SECRET, TEXT, RESULT, WRITTEN, SENT, ANSWER]
UNUSED = "operation-unused"


@pytest.fixture(autouse=True)
def nothing_said_before(no_resolvers: None) -> Iterator[None]:
    """No other test's resolvers, and no operation that has been warned of."""
    telemetry.operation_unused.cache_clear()
    yield
    telemetry.operation_unused.cache_clear()


def warned_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The operations that were warned of, in their order."""
    lines = [line for line in caplog.records if getattr(line, "oncekey_event", "") == UNUSED]
    assert {line.levelno for line in lines} <= {logging.WARNING}
    return [line.operation for line in lines]  # type: ignore[attr-defined]  # an extra field of ours


def test_a_handler_that_does_not_use_its_operation_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it does is not recorded, and would be done again: its author is told, once for each
    operation, however many requests it serves.
    """
    service, other = Protected(effects="recorded"), Protected(effects="recorded", operation="b")
    keys = [f"another-key-of-the-client-{number}" for number in range(3)]

    for event in (POST, POST, *(with_key(POST, key) for key in keys)):
        service.send(event)
        other.send(event)

    assert warned_of(caplog) == ["POST /payments", "b"]
    assert "is declared effects='recorded' and did not use its operation object" in caplog.text


USES: dict[str, Callable[[Operation], Any]] = {
    "step": lambda op: op.step("charge", list),
    "commit": lambda op: op.commit("ordered"),
    "transaction": lambda op: op.transaction.put("rides", {"id": "1"}),
    "outbox": lambda op: op.outbox.publish("ride.ordered", {}),
    "downstream_key": lambda op: op.downstream_key("charge"),
}


@pytest.mark.parametrize("use", USES)
def test_a_handler_that_uses_its_operation_is_not_warned_of(
    use: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One use of any kind is enough."""
    Steps().sends(lambda _service, op: USES[use](op))

    assert warned_of(caplog) == []


@pytest.mark.parametrize(
    "then",
    [
        answers(402),
        answers(303),
        answers(500),
        fails(Final(404)),
        fails(NotExecuted()),
        fails(ValueError()),
    ],
    ids=["402", "303", "500", "Final", "NotExecuted", "ValueError"],
)
def test_a_handler_that_did_nothing_is_not_warned_of(
    then: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It refused the request, or failed, before it came to any effect."""
    service = Protected(effects="recorded")
    service.then = then

    with contextlib.suppress(ValueError):
        service.send(POST)

    assert warned_of(caplog) == []


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_handlers_of_other_effects_are_not_warned_of(
    effects: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They have nothing to record."""
    Protected(effects=effects).send(POST)

    assert warned_of(caplog) == []


def test_functions_coroutines_and_routes_are_warned_of_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However the operation is declared."""
    options: dict[str, Any] = {"tenant": single_tenant(), "effects": "recorded"}

    @idempotent(operation="a coroutine", store=MemoryStore(), **options)
    async def handler(_event: Any, _context: Any) -> dict[str, Any]:
        return {"statusCode": 201, "body": ""}

    async def call() -> None:
        await handler(POST, None)

    service = Service()
    service.app.post("/payments", middlewares=[service.protect(effects="recorded")])(dict)

    asyncio.run(call())
    service.send(load("apigw_http_v2_post"))
    Function(operation="a function").calls(lambda _op: "a result")

    assert warned_of(caplog) == ["a coroutine", "POST /payments", "a function"]


def steps(**options: Any) -> Steps:
    """A handler that is asked what can be told again."""
    service = Steps(fingerprint_secrets=[SECRET.encode()], **options)
    service.event = REQUEST
    return service


def effects(_service: Steps, op: Operation) -> None:
    """A business write and a message."""
    op.transaction.put("rides", {"id": WRITTEN}, condition="a = :b", values={":b": WRITTEN})
    op.outbox.publish("ride.ordered", {"note": SENT})


CHARGE = step("charge", RESULT)
TIMED_OUT = caught(step("charge", raises=TimeoutError(TEXT)))
CREATED = {"statusCode": 201, "body": ANSWER}


def completed() -> None:
    """A run with everything, and its replay."""
    service = steps()
    service.sends(CHARGE, effects, commit("ordered"), effects, ends=CREATED)
    service.send(REQUEST)


def resumed() -> None:
    """A run that failed half way, and the next one."""
    service = steps()
    with contextlib.suppress(ValueError):
        service.sends(CHARGE, effects, ends=ValueError(TEXT))
    service.sends(CHARGE, ends=CREATED)


def settled(*findings: Any) -> Callable[[], None]:
    """A step in doubt, and what resolvers say of it."""

    def outcome() -> None:
        service = steps()
        service.sends(TIMED_OUT, ends=CREATED)
        service.clock.advance(LEASE_MS + 60_001)
        finds(*findings)
        for _ in findings:
            with contextlib.suppress(TypeError):
                settler(service).settle(service.record)
        service.sends(CHARGE, effects, ends=CREATED)

    return outcome


def not_executed() -> None:
    """Proofs, by type and by a rule that fails."""

    def rule(error: BaseException) -> bool:
        raise LookupError(str(error))

    steps().sends(step("charge", raises=NotExecuted(TEXT)))
    steps(not_executed=rule).sends(caught(step("charge", raises=ValueError(TEXT))))


def changed() -> None:
    """A step that was renamed."""
    service = steps()
    service.sends(CHARGE, ends=FAILED)
    service.sends(step("pay", RESULT), ends=CREATED)


def result_lost() -> None:
    """A result that is gone, and one that cannot be stored."""
    service, other = steps(), steps()
    service.sends(step("charge", [RESULT, noise(20_000)]), ends=FAILED)
    service.store.blobs.clear()
    service.sends(CHARGE)
    other.sends(caught(step("charge", {RESULT: object()})), ends=FAILED)
    other.sends(CHARGE)


def store_away() -> None:
    """Each checkpoint that is not confirmed."""
    for call in ("StartStep", "FinishStep", "commit FinishStep", "commit Complete"):
        service = steps()
        service.store.refuse(call, 1000)
        service.sends(CHARGE, effects, commit("ordered"), effects, ends=CREATED)


def condition_failed() -> None:
    """A condition that does not hold, in a commit and at the end."""
    for actions in ([effects, caught(commit("ordered"))], [effects]):
        service = steps()
        service.store._holds = lambda _write: False
        with contextlib.suppress(ConditionFailed):
            service.sends(*actions, ends=CREATED)


def stale() -> None:
    """An attempt that was taken over, and one that has no time left."""
    service = steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1, fingerprint_secrets=[SECRET.encode()])
    other.event = REQUEST
    late: list[Action] = [CHARGE, meanwhile(other, CHARGE, ends=CREATED), step("ship", RESULT)]
    service.sends(*late, ends=CREATED)


def in_functions() -> None:
    """The same below functions."""
    function = Function(key=lambda record: KEY + record["id"])
    for error in (ValueError(TEXT), TimeoutError(TEXT)):
        with contextlib.suppress(ValueError, TimeoutError, CallNotAnswered):
            function.calls(lambda _op, error=error: function.step("charge", raises=error))  # type: ignore[misc]


OUTCOMES: dict[str, tuple[Callable[[], None], set[str]]] = {
    "completed": (completed, {"reserved", "replayed"}),
    "resumed": (resumed, {"not-executed"}),
    "settled as completed": (settled(Completed(RESULT)), {"outcome-unknown", "settled"}),
    "settled as not executed": (settled(NotExecuted(TEXT)), {"settled"}),
    "not settled": (settled(raises(ValueError(TEXT)), RESULT), {"resolver-failed", "refused"}),
    "settled with what cannot be stored": (settled(Completed({RESULT: object()})), {"refused"}),
    "not executed": (not_executed, {"rule-failed"}),
    "changed": (changed, {"run-stopped", "outcome-unknown"}),
    "result lost": (result_lost, {"run-stopped", "step-result-not-kept"}),
    "store away": (store_away, {"run-stopped", "store-unavailable"}),
    "condition failed": (condition_failed, {"not-executed"}),
    "stale": (stale, {"lease-expired", "run-stopped", "ownership-lost"}),
    "functions": (in_functions, {"outcome-unknown"}),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_nothing_of_what_was_asked_or_done_is_logged(
    outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither key, body, credential, results, items, messages, answers nor texts of errors are in
    any message or field, however a recorded operation goes on.

    Red when any event tells one of them.
    """
    run, events = OUTCOMES[outcome]

    with caplog.at_level(logging.DEBUG):
        run()

    names = {getattr(line, "oncekey_event", None) for line in caplog.records}
    assert events <= names, names
    for line in caplog.records:
        said = f"{line.getMessage()} {vars(line)!r}"
        assert [text for text in CONTENTS if text in said] == [], said
