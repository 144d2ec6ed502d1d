"""Sandboxes.

Processes that each run one function, one request at a time, and die at its timeout.
"""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey_local.functions.runtime_api import Assignment, Listener, Outcome, OutcomeKind
from oncekey_local.identifiers import new_id, now_ms
from oncekey_local.log import log
from oncekey_local.processes import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey_local.functions.runtime_api import Endpoint, RuntimeApi

# A handler that imports much on a busy machine is slow, not stuck. Lambda gives 10 s.
_INIT_TIMEOUT_S = 60


@dataclass(frozen=True, kw_only=True)
class SandboxSettings:
    """What all sandboxes of one function have in common. `on_line` sees each line of their log."""

    function: str
    handler: str
    arn: str
    timeout_s: float
    environment: Mapping[str, str]
    on_line: Callable[[str], None] | None = None


class State(StrEnum):
    """What a sandbox is doing. `RESTING`: it has answered, and not yet asked for more."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    RESTING = "resting"
    GONE = "gone"


class Invocation:
    """One event on its way through a function, from the queue to its outcome."""

    def __init__(self, event: bytes) -> None:
        self.request_id = new_id()
        self.event = event
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def __str__(self) -> str:
        """For the log: its id, and for a request over HTTP the front's line of it."""
        event = json.loads(self.event)
        route = event.get("routeKey") if isinstance(event, dict) else None
        front = f" ({route} {event['requestContext']['requestId']})" if route else ""
        return f"request {self.request_id}{front}"

    def end(self, outcome: Outcome) -> None:
        """Hands the outcome to whoever waits for it.

        Nobody may: a caller can give up while the function runs on.
        """
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Sandbox:
    """One process of a function, from its start to its end.

    `on_change` is called after every change of state.
    """

    def __init__(self, settings: SandboxSettings, on_change: Callable[[Sandbox], None]) -> None:
        self.state = State.STARTING
        self.started = False
        # Killed from outside before it asked for work: that says nothing of the function.
        self.was_lost = False
        self.invocation: Invocation | None = None
        self._settings = settings
        self._on_change = on_change
        self._timed_out = False
        self._killed = False
        self._is_retired = False
        self._child: Child | None = None
        self._endpoint: Endpoint | None = None
        self._timer = asyncio.get_running_loop().call_later(_INIT_TIMEOUT_S, self._time_out)

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process."""
        return self._child.pid if self._child else None

    async def live(self, api: RuntimeApi) -> None:
        """Starts the process and returns after its end, when its invocation has an outcome."""
        endpoint: Endpoint | None = None
        status = 1
        try:
            endpoint = await api.open(Listener(on_poll=self._on_poll, on_outcome=self._on_outcome))
            self._endpoint = endpoint
            status = await self._run_process(endpoint)
        except OSError as error:  # out of processes, memory, or descriptors
            self._report(f"cannot be started: {error}")
        finally:
            self._timer.cancel()
            if self._child:
                self._child.kill()  # and whatever it has started
            if endpoint:
                await api.close(endpoint)
        self._end(status)

    def run(self, invocation: Invocation) -> None:
        """Gives an idle sandbox its next work; the function's timeout starts now."""
        assert self.state is State.IDLE
        assert self._endpoint is not None
        self.state, self.invocation = State.BUSY, invocation
        self._timer = asyncio.get_running_loop().call_later(
            self._settings.timeout_s, self._time_out
        )
        self._endpoint.hand_over(
            Assignment(
                request_id=invocation.request_id,
                event=invocation.event,
                deadline_ms=now_ms() + int(self._settings.timeout_s * 1000),
                function_arn=self._settings.arn,
            )
        )

    def kill(self) -> None:
        """Sends SIGKILL; `live` returns soon after."""
        self._killed = True
        if self._child:
            self._child.kill()

    def retire(self) -> None:
        """Ends the process: at once, or after the request that it runs."""
        self._is_retired = True
        if self.state is not State.BUSY:
            self.kill()

    async def _run_process(self, endpoint: Endpoint) -> int:
        self._child = await Child.start(
            label=self._settings.function,
            module="awslambdaric",
            arguments=(self._settings.handler,),
            environment={**self._settings.environment, "AWS_LAMBDA_RUNTIME_API": endpoint.address},
            on_line=self._settings.on_line,
        )
        if self._killed:
            self._child.kill()
        return await self._child.wait()

    def _on_poll(self) -> None:
        self._timer.cancel()
        if self._is_retired:
            self.kill()
            return
        self.state, self.started = State.IDLE, True
        self._on_change(self)

    def _on_outcome(self, request_id: str, outcome: Outcome) -> bool:
        if self.invocation is None or self.invocation.request_id != request_id:
            return False
        self._timer.cancel()
        invocation, self.invocation = self.invocation, None
        self.state = State.RESTING
        invocation.end(outcome)
        return True

    def _time_out(self) -> None:
        self._timed_out = True
        if self.invocation:
            what = f"{self.invocation} timed out after {self._settings.timeout_s:g} s"
        else:
            what = f"not ready after {_INIT_TIMEOUT_S} s"
        self._report(f"{what}: killed")
        self.kill()

    def _end(self, status: int) -> None:
        self.state = State.GONE
        if self.invocation:
            kind = OutcomeKind.TIMED_OUT if self._timed_out else OutcomeKind.DIED
            if kind is OutcomeKind.DIED:
                self._report(f"ended with status {status} while it ran {self.invocation}")
            self.invocation.end(Outcome(kind=kind))
            self.invocation = None
        elif not self.started and not self._killed:
            self.was_lost = status == -signal.SIGKILL
            self._report(
                f"did not start: ended with status {status} before it asked for work; "
                "its output is above"
            )
        self._on_change(self)

    def _report(self, what: str) -> None:
        log(f"[{self._settings.function} {self.pid}] {what}")
