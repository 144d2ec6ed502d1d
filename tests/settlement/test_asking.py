"""Asking a resolver that raises, answers nonsense, or never answers."""

from __future__ import annotations

import contextvars
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, StillUnknown
from oncekey.record.record import Status
from oncekey.settlement.asking import ask
from oncekey.settlement.resolvers import question_about
from tests.support.records import NOW_MS, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.settlement.resolvers import Finding, Question

MET = record(status=Status.UNKNOWN)
QUESTION = question_about(MET)
NOBODY_KNOWS = StillUnknown(timedelta(0))
# Far longer than any answer here takes: who does not answer hangs on an event.
LONG_MS = 60_000
NONE_OR_LONG = pytest.mark.parametrize("timeout_ms", [None, LONG_MS], ids=["no limit", "in time"])


def asking(resolve: Callable[[Question], Any], timeout_ms: int | None) -> Finding:
    """What `ask` makes of this resolver."""
    return ask(resolve, QUESTION, MET, NOW_MS, timeout_ms)


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says about resolvers that failed."""
    said = [entry.getMessage() for entry in caplog.records]
    assert all(line.startswith("oncekey resolver-failed: POST /payments") for line in said)
    return [line.rpartition(": ")[2] for line in said]


@NONE_OR_LONG
@pytest.mark.parametrize(
    "finding",
    [Completed(0), Completed(None), NotExecuted("n"), StillUnknown(timedelta(minutes=5))],
    ids=repr,
)
def test_what_a_resolver_finds_is_what_is_given(finding: Finding, timeout_ms: int | None) -> None:
    """A finding is given as it is, and the resolver is asked the question once."""
    asked = []

    def resolve(question: Question) -> Finding:
        asked.append(question)
        return finding

    assert asking(resolve, timeout_ms) is finding
    assert asked == [QUESTION]


@NONE_OR_LONG
@pytest.mark.requirement("D3")
def test_not_executed_that_is_raised_proves_nothing(
    timeout_ms: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """`NotExecuted` that comes out of a resolver's helper, which could not ask, or was told no
    address to ask at, says nothing of the operation: it is still unknown, and the log says why.

    Red when a raised `NotExecuted` counts as one that is returned.
    """

    class NotConfigured(NotExecuted):
        pass

    def resolve(_question: Question) -> Finding:
        raise NotConfigured("the provider's address is not set")

    assert asking(resolve, timeout_ms) == NOBODY_KNOWS
    assert failures(caplog) == ["a finding is returned, not raised"]
    assert "NotConfigured" in caplog.text


@NONE_OR_LONG
def test_who_raises_does_not_know(timeout_ms: int | None, caplog: pytest.LogCaptureFixture) -> None:
    """Any other error means that it is still unknown; the log has its kind and not its text."""

    def resolve(_question: Question) -> Finding:
        raise ConnectionError("card 4242 of acme")

    assert asking(resolve, timeout_ms) == NOBODY_KNOWS
    assert failures(caplog) == ["ConnectionError"]
    assert "4242" not in caplog.text


@NONE_OR_LONG
@pytest.mark.parametrize(
    "nonsense",
    [None, True, {}, "completed", Completed, NotExecuted, StillUnknown(30), StillUnknown(None)],  # type: ignore[arg-type]
    ids=repr,
)
def test_nonsense_proves_nothing(
    nonsense: Any, timeout_ms: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no finding, as a class that was not called, or a wait of unknown unit, means that it
    is still unknown.
    """
    assert asking(lambda _question: nonsense, timeout_ms) == NOBODY_KNOWS
    assert failures(caplog) == ["no answer of a resolver"]


@pytest.mark.parametrize("ending", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_who_exits_ends_nobody_else(
    ending: BaseException, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resolver that ends its process, as it thinks, costs its record the turn: nothing is proven
    by it, the caller goes on, and no traceback is printed.
    """

    def resolve(_question: Question) -> Finding:
        raise ending

    assert asking(resolve, LONG_MS) == NOBODY_KNOWS
    assert failures(caplog) == [type(ending).__name__]
    assert capsys.readouterr().err == ""


def test_who_hangs_is_left_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    """A resolver that does not answer in time is not waited for, keeps no process alive, and what
    it says later is heard by nobody.
    """
    goes_on = threading.Event()
    hanging: list[threading.Thread] = []

    def resolve(_question: Question) -> Finding:
        hanging.append(threading.current_thread())
        goes_on.wait()
        return Completed("too late")

    try:
        assert asking(resolve, 1) == NOBODY_KNOWS
        (thread,) = hanging
        assert thread.daemon
        assert failures(caplog) == ["it did not answer in time"]
    finally:
        goes_on.set()
    thread.join()
    assert failures(caplog) == ["it did not answer in time"]


def test_who_cannot_be_asked_does_not_know(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where those that hang have used up the sandbox's threads, nothing is proven, or raised."""

    def none_left(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)

    assert asking(lambda _question: NotExecuted(), LONG_MS) == NOBODY_KNOWS
    assert failures(caplog) == ["there is no thread left to ask it in"]


def test_a_resolver_finds_the_context_of_its_caller() -> None:
    """Context variables, such as those of a tracer, are there also where the time is limited."""
    trace = contextvars.ContextVar("trace", default="none")
    token = trace.set("of the run")
    try:
        assert asking(lambda _question: Completed(trace.get()), LONG_MS) == Completed("of the run")
    finally:
        trace.reset(token)
