"""Steps and commits of coroutines: awaited, recorded, and cancelled at every point of theirs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    IETF,
    ConditionFailed,
    EffectMisused,
    Final,
    InProgress,
    NotExecuted,
    current_operation,
)
from oncekey.problem import marked
from oncekey.record.record import Record, Status
from tests.support.async_steps import Service, commit, fails, step
from tests.support.protected import problem_of
from tests.support.steps import BESIDE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.mark.requirement("E1")
def test_a_coroutine_resumes_after_its_finished_steps_and_commits() -> None:
    """Steps are awaited and their results recorded; an attempt that resumes is given them, and
    neither runs a finished step nor applies a commit again.

    Red when a coroutine's result is not recorded, or its commit is applied twice.
    """

    async def scenario() -> Service:
        service = Service()
        with pytest.raises(ValueError, match="it failed"):
            await service.sends(step("charge", ("c", 1)), commit("ordered"), fails)
        answer = await service.sends(
            step("charge"), commit("ordered"), step("ship", is_idempotent=True)
        )
        assert answer["statusCode"] == 201
        return service

    service = asyncio.run(scenario())

    assert service.ran == ["charge", "ship"]
    assert service.given == [("c", 1), None, ("c", 1), None, None]
    assert len(service.store.writes) == 1
    assert [each.name for each in service.store.record.steps.finished] == [
        "charge",
        "ordered",
        "ship",
    ]


def test_the_not_now_of_another_operation_is_no_result_of_an_async_step() -> None:
    """A step that gets it has not ended, and runs again in the next attempt."""
    running = marked(IETF.refusal("request-in-progress", base=""), "request-in-progress")

    async def scenario() -> Service:
        service = Service()
        with pytest.raises(ValueError, match="it failed"):
            await service.sends(step("pay", running, is_idempotent=True), fails)
        await service.sends(step("pay", "paid", is_idempotent=True))
        return service

    service = asyncio.run(scenario())

    assert service.given == [running, "paid"]
    assert service.ran == ["pay", "pay"]


def test_a_rule_that_names_in_progress_is_asked_of_a_not_now() -> None:
    """To whom `InProgress` proves that nothing was done, an answer that says so proves it: the mark
    of the step is taken back, and the handler's own answer counts.
    """
    running = marked(IETF.refusal("request-in-progress", base=""), "request-in-progress")

    async def scenario() -> Service:
        service = Service(not_executed=InProgress)
        assert (await service.sends(step("pay", running)))["statusCode"] == 201
        return service

    record = asyncio.run(scenario()).store.record

    assert (record.status, record.steps.started) == (Status.COMPLETED, None)


@pytest.mark.parametrize("is_group", [False, True])
def test_an_answer_that_an_async_step_raises_leaves_it_as_that_answer(is_group: bool) -> None:
    """A handler that catches `Final` and goes on completes, in the first attempt as in one that
    resumes; also where a group of tasks raised it.
    """
    final = Final(402, {"no": "card"})
    error = ExceptionGroup("both", [final, Final(402, {"no": "card"})]) if is_group else final

    async def catches(service: Service) -> Any:
        with pytest.raises(Final) as raised:
            await step("charge", raises=error)(service)
        return raised.value.status

    async def scenario() -> Service:
        service = Service()
        with pytest.raises(ValueError, match="it failed"):
            await service.sends(catches, fails)
        assert (await service.sends(catches))["statusCode"] == 201
        one = Service()
        assert (await one.sends(catches))["statusCode"] == 201
        return service

    service = asyncio.run(scenario())

    assert (service.ran, service.given) == (["charge"], [402, 402])


def test_after_a_failed_condition_of_an_async_commit_the_run_may_go_on() -> None:
    """Nothing was applied, and the handler knows it: it completes."""

    async def commits(service: Service) -> None:
        service.store._holds = lambda _write: False
        with pytest.raises(ConditionFailed):
            await commit("ordered")(service)
        service.store._holds = lambda _write: True

    async def scenario() -> Service:
        service = Service()
        assert (await service.sends(commits, step("ship")))["statusCode"] == 201
        return service

    service = asyncio.run(scenario())

    assert service.store.writes == []
    assert [each.name for each in service.store.record.steps.finished] == ["ship"]


@pytest.mark.parametrize("gated", ["StartStep", "FinishStep", "commit FinishStep", "fetch"])
def test_the_event_loop_is_free_while_the_store_is_called(gated: str) -> None:
    """Another task runs while a mark, a result, a commit or a fetched result is waited for."""

    async def scenario() -> None:
        service = Service()
        large = BESIDE if gated == "fetch" else b""
        if gated == "fetch":
            with pytest.raises(ValueError, match="it failed"):
                await service.sends(step("charge", large), fails)
        service.store.gated = gated
        task = asyncio.ensure_future(service.sends(step("charge", large), commit("ordered")))
        # Whoever waits here is another task, which the loop has time for.
        await service.until_the_gate(task)
        assert not task.done()
        service.store.opened.set()
        assert (await task)["statusCode"] == 201

    asyncio.run(scenario())


def test_cancelled_before_its_function_a_step_is_as_if_never_begun() -> None:
    """The mark that was being written lands and is taken back, because the function was never
    called: the key may run again at once.
    """

    async def scenario() -> tuple[Service, Record]:
        service = Service("StartStep")
        return service, await service.cancelled_at_the_gate(step("charge"))

    service, record = asyncio.run(scenario())

    assert service.ran == []
    assert service.store.asked == ["Reserve", "StartStep", "ClearStep", "Release"]
    assert (record.status, record.steps.started) == (Status.FAILED_RETRYABLE, None)
    assert record.expires_at_s is not None


@pytest.mark.requirement("E6")
def test_cancelled_in_its_function_a_step_is_in_doubt() -> None:
    """What the function did is not known; a handler that swallows the cancellation has not
    completed either.

    Red when a cancellation counts as a proof.
    """

    async def scenario(is_swallowed: bool) -> tuple[Record, Any]:
        service, started = Service(), asyncio.Event()

        async def function() -> None:
            if not started.is_set():
                started.set()
                await asyncio.Event().wait()

        async def charge(_service: Service) -> None:
            try:
                await current_operation().step_async("charge", function)
            except asyncio.CancelledError:
                if not is_swallowed:
                    raise

        task = asyncio.ensure_future(service.sends(charge))
        await started.wait()
        task.cancel()
        if is_swallowed:
            answer = await task
            return service.store.record, answer
        with pytest.raises(asyncio.CancelledError):
            await task
        return service.store.record, await service.sends(charge)

    for is_swallowed in (False, True):
        record, answer = asyncio.run(scenario(is_swallowed))
        assert problem_of(answer) == (409, "outcome-unknown", True)
        assert record.steps.started is not None
        assert record.status is Status.UNKNOWN


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("is_idempotent", [False, True])
@pytest.mark.requirement("E6")
def test_cancelled_while_its_result_is_recorded_a_step_is_finished(
    times: int, is_idempotent: bool
) -> None:
    """The result is recorded first, however often the task is cancelled, and then the cancellation
    is raised; the next request resumes after it.

    Red when a cancellation interrupts a checkpoint: finished work would be in doubt.
    """

    async def scenario() -> tuple[Service, Record]:
        service = Service("FinishStep")
        charge = step("charge", "c-1", is_idempotent=is_idempotent)
        record = await service.cancelled_at_the_gate(charge, step("ship"), times=times)
        await service.sends(charge, step("ship"))
        return service, record

    service, record = asyncio.run(scenario())

    assert (record.status, record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    assert [each.name for each in record.steps.finished] == ["charge"]
    assert service.ran == ["charge", "ship"]
    assert service.given == ["c-1", None]


def test_cancelled_while_it_commits_the_commit_is_applied_once() -> None:
    """The transaction lands, with its recovery point, and the next attempt does not send it."""

    async def scenario() -> tuple[Service, Record]:
        service = Service("commit FinishStep")
        record = await service.cancelled_at_the_gate(commit("ordered"))
        assert (await service.sends(commit("ordered"), step("ship")))["statusCode"] == 201
        return service, record

    service, record = asyncio.run(scenario())

    assert record.status is Status.FAILED_RETRYABLE
    assert len(service.store.writes) == 1
    assert service.store.asked.count("commit FinishStep") == 1


def test_cancelled_while_a_result_is_fetched_the_step_stays_finished() -> None:
    """Nothing is taken back of what is on record."""

    async def scenario() -> Service:
        service = Service()
        with pytest.raises(ValueError, match="it failed"):
            await service.sends(step("charge", BESIDE), fails)
        service.store.gated = "fetch"
        record = await service.cancelled_at_the_gate(step("charge"))
        assert [each.name for each in record.steps.finished] == ["charge"]
        assert (await service.sends(step("charge")))["statusCode"] == 201
        return service

    assert asyncio.run(scenario()).ran == ["charge"]


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("second", [step("ship"), commit("ordered")], ids=["step", "commit"])
def test_steps_do_not_overlap(second: Callable[[Service], Awaitable[Any]]) -> None:
    """A step or commit that begins beside another one is refused, and the first one ends well.

    Red when two steps are under way at once: there is one place for the one that is in doubt.
    """

    async def both(service: Service) -> Any:
        return await asyncio.gather(
            step("charge", "c-1")(service), second(service), return_exceptions=True
        )

    async def scenario() -> tuple[Service, Any]:
        service = Service()
        return service, await service.sends(both)

    service, answer = asyncio.run(scenario())

    ((first, refused),) = service.given
    assert first == "c-1"
    assert isinstance(refused, EffectMisused)
    assert "or beside it" in str(refused)
    assert service.ran == ["charge"]
    assert answer["statusCode"] == 201


@pytest.mark.parametrize("function", [lambda: "charged", "charged"], ids=["plain", "a result"])
def test_what_cannot_be_awaited_is_told_so(function: Any) -> None:
    """A plain function has run by then, so its step is in doubt; what is no function at all is
    refused before anything is marked.
    """

    async def charge(_service: Service) -> None:
        with pytest.raises(EffectMisused, match=r"use `op.step|is no function"):
            await current_operation().step_async("charge", function)

    async def scenario() -> Status:
        service = Service()
        await service.sends(charge)
        return service.store.record.status

    assert asyncio.run(scenario()) is (Status.UNKNOWN if callable(function) else Status.COMPLETED)


def test_the_exception_of_a_coroutine_says_the_same_as_a_functions() -> None:
    """A proof clears the mark; anything else leaves it in doubt; an idempotent step is not
    marked.
    """

    async def scenario(charge: Callable[[Service], Awaitable[Any]]) -> Record:
        service = Service()

        async def caught(_service: Service) -> None:
            with pytest.raises((NotExecuted, OSError)):
                await charge(service)

        await service.sends(caught)
        return service.store.record

    proof = asyncio.run(scenario(step("charge", raises=NotExecuted())))
    doubt = asyncio.run(scenario(step("charge", raises=OSError())))
    idempotent_one = asyncio.run(scenario(step("charge", raises=OSError(), is_idempotent=True)))

    assert (proof.status, proof.steps.started) == (Status.COMPLETED, None)
    assert doubt.status is Status.UNKNOWN
    assert idempotent_one.status is Status.COMPLETED
