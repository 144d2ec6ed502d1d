"""An HTTP request that runs bare: it needs no key, or ONCEKEY_DISABLED is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.effects.operation import running
from oncekey.effects.raised import final_in
from oncekey.encoding.our_refusal import marked
from oncekey.errors import Final, NotExecuted
from oncekey.http.answer import Answer, final_answer, with_headers
from oncekey.http.event import Shape, shape_of
from oncekey.http.result import is_given
from oncekey.record.outcome import RETRY_SOON_MS
from oncekey.store import defaults

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.effects.bare_run import BareRun
    from oncekey.effects.operation import Operation
    from oncekey.engine.bare_call import BareCall
    from oncekey.http.policy import HttpPolicy

    Handler = Callable[[Any, Any, Operation], Any]
    AsyncHandler = Callable[[Any, Any, Operation], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BareHttp:
    """How such a request is answered."""

    policy: HttpPolicy
    call: BareCall

    def answer(self, handler: Handler, event: Any, context: Any) -> Any:
        """What `handler` returned, as it is; what it has collected is applied first."""
        operation, run = self.call.begin(context)
        try:
            with running(operation):
                value = handler(event, context, operation)
            self._discard_unless(run, commits=is_given(value))
            self.call.apply(run)
        except BaseException as error:
            ending = self._ending(error, run)
            if ending is None:
                raise
            try:
                self.call.apply(run)
            except Final as otherwise:
                return self._answer(otherwise, event)
            return self._answer(ending, event)
        return value

    async def answer_async(self, handler: AsyncHandler, event: Any, context: Any) -> Any:
        """The same for a coroutine function."""
        operation, run = self.call.begin(context)
        try:
            with running(operation):
                value = await handler(event, context, operation)
            self._discard_unless(run, commits=is_given(value))
            await self.call.apply_async(run)
        except BaseException as error:
            ending = self._ending(error, run)
            if ending is None:
                raise
            try:
                await self.call.apply_async(run)
            except Final as otherwise:
                return self._answer(otherwise, event)
            return self._answer(ending, event)
        return value

    def _ending(self, error: BaseException, run: BareRun) -> Final | NotExecuted | None:
        """What `error` ends the request with, where it is ours to answer.

        That nothing was done is not said of a run whose steps or commits may have taken effect.
        """
        final = final_in(error)
        if final is not None:
            self._discard_unless(run, commits=final.commit)
            return final
        if isinstance(error, NotExecuted) and not run.acts:
            run.collected.take()
            return error
        return None

    def _discard_unless(self, run: BareRun, *, commits: bool) -> None:
        if not commits:
            run.collected.take()

    def _answer(self, error: Final | NotExecuted, event: Any) -> Answer:
        if isinstance(error, Final):
            answer = final_answer(error)
        else:
            base = defaults.settings(self.policy.given_settings).problem_base
            refusal = self.policy.preset.refusal(
                "not-executed", base=base, retry_after_ms=RETRY_SOON_MS
            )
            answer = marked(refusal, "not-executed")
        return with_headers(answer, {}, shape_of(event) or Shape.PAYLOAD_2)
