"""The sandboxes of one function, started on demand, and the queue of waiting requests."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from oncekey_local.functions.sandboxes import Invocation, Sandbox, SandboxSettings, State
from oncekey_local.processes import StartFailed

if TYPE_CHECKING:
    from oncekey_local.functions.runtime_api import RuntimeApi


_MOST_LOST_IN_A_ROW = 5


class FunctionPool:
    """The sandboxes of one function, and the queue of its waiting requests."""

    def __init__(self, settings: SandboxSettings, api: RuntimeApi, *, warm: int, most: int) -> None:
        self.settings = settings
        self.sandboxes: list[Sandbox] = []
        # Those with old code. They finish the request that they run.
        self.retired: list[Sandbox] = []
        self._api = api
        self._warm = warm
        self._most = most
        self._closing = False
        self._waiting: deque[Invocation] = deque()
        self._lives: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._lost_in_a_row = 0

    async def warm_up(self) -> None:
        """Returns when the warm sandboxes have asked for work.

        Raises `StartFailed` if one ends before that.
        """
        sandboxes = [self._start_sandbox() for _ in range(self._warm)]
        while not all(sandbox.started for sandbox in sandboxes):
            self._changed.clear()
            await self._changed.wait()
            if any(sandbox.state is State.GONE and not sandbox.started for sandbox in sandboxes):
                raise StartFailed(
                    f"function {self.settings.function!r} does not start "
                    f"({self.settings.handler}): mend what its output above says, and start again"
                )

    async def invoke(self, event: bytes) -> Outcome:
        """Runs the function once and returns how it ended.

        It waits while all sandboxes are busy. A cancelled call leaves the queue, but a run that has
        begun continues.
        """
        invocation = Invocation(event)
        self._waiting.append(invocation)
        self._dispatch()
        return await invocation.outcome

    def restart(self) -> None:
        """Runs every later request in new processes, which load the code as it is now.

        A request that runs finishes with the code that it has begun with. A process that does not
        start, because of a syntax error for example, costs a waiting request a failure; the old
        code does not run again.
        """
        retired, self.sandboxes = self.sandboxes, []
        self.retired += retired
        for sandbox in retired:
            sandbox.retire()
        for _ in range(self._warm):
            self._start_sandbox()
        self._dispatch()

    def kill(self) -> None:
        """Sends SIGKILL to every sandbox, and starts no more. Waiting requests fail."""
        self._closing = True
        while self._waiting:
            self._waiting.popleft().end(Outcome(kind=OutcomeKind.DIED))
        for sandbox in (*self.sandboxes, *self.retired):
            sandbox.kill()

    async def gone(self) -> None:
        """Returns when every sandbox has ended, and every run has its outcome."""
        await asyncio.gather(*self._lives)

    def _start_sandbox(self) -> Sandbox:
        sandbox = Sandbox(self.settings, self._on_change)
        self.sandboxes.append(sandbox)
        life = asyncio.create_task(sandbox.live(self._api))
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)
        return sandbox

    def _on_change(self, sandbox: Sandbox) -> None:
        if sandbox in self.retired:
            if sandbox.state is State.GONE:
                self.retired.remove(sandbox)
            return
        self._changed.set()
        if sandbox.started:
            self._lost_in_a_row = 0
        if sandbox.state is State.GONE:
            self.sandboxes.remove(sandbox)
            if not sandbox.started and not self._may_replace(sandbox):
                self._fail_one()
        if not self._closing:
            if sandbox.started and len(self.sandboxes) < self._warm:
                self._start_sandbox()
            self._dispatch()

    def _may_replace(self, sandbox: Sandbox) -> bool:
        """Whether to start another sandbox for the same request, in place of one that failed.

        Lambda repeats a call whose host is lost before the function gets it. The number is limited,
        because a machine without enough memory kills the sandbox each time.
        """
        self._lost_in_a_row = self._lost_in_a_row + 1 if sandbox.was_lost else 0
        return 0 < self._lost_in_a_row <= _MOST_LOST_IN_A_ROW

    def _fail_one(self) -> None:
        """Fail one waiting request after a sandbox could not start.

        So the queue gets shorter even if no sandbox can start.
        """
        while self._waiting:
            invocation = self._waiting.popleft()
            if not invocation.outcome.done():
                invocation.end(Outcome(kind=OutcomeKind.NOT_STARTED))
                return

    def _dispatch(self) -> None:
        idle = [sandbox for sandbox in self.sandboxes if sandbox.state is State.IDLE]
        while self._waiting and (idle or self._waiting[0].outcome.done()):
            invocation = self._waiting.popleft()
            if not invocation.outcome.done():
                idle.pop(0).run(invocation)
        soon = sum(sandbox.state in {State.STARTING, State.RESTING} for sandbox in self.sandboxes)
        for _ in range(min(len(self._waiting) - soon, self._most - len(self.sandboxes))):
            self._start_sandbox()
