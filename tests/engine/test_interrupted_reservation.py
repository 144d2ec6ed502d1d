"""Interrupted before its handler has begun, a request leaves its key open."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Effects, Status
from tests.support.accepted import Accepted
from tests.support.function_calls import Calls
from tests.support.interrupting import Interrupting
from tests.support.protected import Protected, is_replay, while_running
from tests.support.steps import POST, FaultyStore, Steps, step

if TYPE_CHECKING:
    from collections.abc import Callable

# An exception between making a flow and driving it leaves a coroutine that nobody awaits.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.usefixtures("garbage_collected"),
]

EFFECTS = [effects.value for effects in Effects]
EXITS = [KeyboardInterrupt, SystemExit]


class Interrupted(FaultyStore):
    """A store in which the first call of a kind is interrupted, before or after it is made."""

    def __init__(self, call: str, error: BaseException, *, is_carried_out: bool) -> None:
        super().__init__()
        self.call: str | None = call
        self._error = error
        self._is_carried_out = is_carried_out

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        if call != self.call:
            return super()._asked(call, function, argument)
        self.call = None
        if self._is_carried_out:
            super()._asked(call, function, argument)
        raise self._error


@pytest.mark.fault("K11.5")
@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_exit_inside_the_reserve_leaves_the_key_open(
    is_carried_out: bool, kind: type[BaseException], effects: str
) -> None:
    """An exit while the store is called passes, and the same request runs at once afterwards, of a
    handler and of a function; nothing has run before.

    Red when an interrupted reserve is left to its lease.
    """

    def store() -> Interrupted:
        return Interrupted("Reserve", kind(), is_carried_out=is_carried_out)

    service, calls = Protected(store=store(), effects=effects), Calls(store=store())
    with pytest.raises(kind):
        service.send(POST)
    with pytest.raises(kind):
        calls.call({"id": "a"})
    assert (service.runs, calls.runs) == ([], [])

    assert service.send(POST)["statusCode"] == 201
    assert calls.call({"id": "a"}) is None
    assert (len(service.runs), len(calls.runs)) == (1, 1)


@pytest.mark.fault("K11.5")
def test_an_exit_leaves_the_lease_of_another_attempt() -> None:
    """A repeat that is interrupted while the first request runs gives back no lease but its own.

    Red when whoever is interrupted gives back the lease that it finds.
    """
    store = Interrupted("nothing yet", KeyboardInterrupt(), is_carried_out=True)
    service = Protected(store=store, effects="recorded")

    def repeat() -> Any:
        store.call = "Reserve"
        with pytest.raises(KeyboardInterrupt):
            service.send(POST)
        return service.store.records.copy()

    (during,) = while_running(service, POST, repeat).values()

    assert (during.status, during.attempt) == (Status.IN_PROGRESS, 1)
    assert is_replay(service.send(POST))
    assert len(service.runs) == 1


@pytest.mark.fault("K11.5")
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_exit_inside_a_resume_keeps_what_is_half_done(is_carried_out: bool) -> None:
    """What was finished before stays on record without an expiry, and the next request goes on.

    Red when a resumed record is given back as if nothing stood in it.
    """
    store = Interrupted("Resume", KeyboardInterrupt(), is_carried_out=is_carried_out)
    service = Steps(store=store)
    service.sends(step("hold"), ends={"statusCode": 500})

    with pytest.raises(KeyboardInterrupt):
        service.sends(step("hold"), step("charge"))

    record = service.record
    assert (record.status, record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    assert [each.name for each in record.steps.finished] == ["hold"]
    assert service.sends(step("hold"), step("charge"))["statusCode"] == 201
    assert service.ran == ["hold", "charge"]


@pytest.mark.fault("K11.5")
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_exit_while_a_worker_begins_leaves_its_message_good(is_carried_out: bool) -> None:
    """A worker that is interrupted as it begins a job takes it up at the next delivery.

    Red when a job that was begun by nobody stays in progress.
    """
    service = Accepted(
        store=Interrupted("Begin", KeyboardInterrupt(), is_carried_out=is_carried_out)
    )
    service.sends()
    with pytest.raises(KeyboardInterrupt):
        service.works()

    service.works()

    assert service.record.status is Status.COMPLETED
    assert len(service.runs) == 1


# Where the handler has been handed out: its call cannot be told from what stands around it.
HANDED_OUT = {"run_handler", "_carried_out", "invoke", "drive", "perform", "<lambda>", "invocation"}
HANDED_OUT |= {
    "__await__",
    "_operation",
    "bind_effects",
    "call",
    "__init__",
    "__enter__",
    "__getattr__",
}


@pytest.mark.fault("K11.5")
@pytest.mark.parametrize("effects", EFFECTS)
def test_an_exit_at_any_point_before_the_handler_leaves_the_key_open(effects: str) -> None:
    """At whatever line of ours an exit comes before the handler is handed out, the same request
    runs at once afterwards.

    Red when the flow is not told of what comes between its calls.
    """
    reached: list[int] = []

    def sent(interrupting: Interrupting) -> Protected:
        service = Protected(effects=effects)

        def handler(_event: object, _op: object) -> Any:
            reached.append(interrupting.points)
            return {"statusCode": 201}

        service.then = handler
        with contextlib.suppress(KeyboardInterrupt), interrupting:
            service.send(POST)
        return service

    # What a first call imports is no part of the calls that are compared.
    sent(Interrupting())
    reached.clear()
    sent(Interrupting())
    (points,), stuck = tuple(reached), []
    for at in range(points):
        interrupting = Interrupting(at=at, error=KeyboardInterrupt())
        service = sent(interrupting)
        assert service.runs == []
        if service.send(POST)["statusCode"] != 201:
            stuck.append(interrupting.where)

    assert points > 100
    assert [where for where in stuck if where.split()[1] not in HANDED_OUT] == []
    # Of all commands that are awaited, only `Invoke` hands the handler out.
    assert sum(where.endswith("__await__") for where in stuck) <= 1
    assert len(stuck) < 40
