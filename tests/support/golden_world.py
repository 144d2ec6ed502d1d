"""The reference service without its local runtime: a test plays the parts of Lambda's pollers.

Each invocation is a process of its own, which can be killed or stopped at any of its calls.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.service import SERVICE
from oncekey_local.events.batch_answer import judge
from oncekey_local.events.batch_event import sequence_number
from oncekey_local.functions.environment import Place, function_environment
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from tests.support.events import load, with_body, with_key
from tests.support.forked_processes import clock_file, running_forks, running_store
from tests.support.golden_store import GoldenStore
from tests.support.provider import Provider, running_provider

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.forked_processes import Forks, Run
    from tests.support.golden_store import Record
    from tests.support.tripwire import Stop

API, RELAY, WORKER = "payments", "outbox-relay", "outbox-worker"
KEY = "5d2c7d0e-8f5b-4a3e-9f38-2b8a7d1f6c11"
REQUEST = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}
# Beyond any lease and any visibility timeout, and far below any retention.
_LATER_MS = 600_000
_CHILD = "tests.support.golden_child"
_DELIVERED_AT_ONCE = 5


@dataclass
class GoldenWorld:
    """A store, a provider, a clock, how far the stream was read, and which messages are hidden."""

    store: GoldenStore
    provider: Provider
    forks: Forks
    # Of each function, by its name.
    environments: dict[str, dict[str, str]]
    _acknowledged: int = 0
    _hidden: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """Nothing is stored, the provider knows nothing, and it is the real time."""
        self.store.forget()
        self.provider.reset()
        self.forks.set_clock(0)
        self._acknowledged = 0
        self._hidden.clear()

    def later(self) -> None:
        """So much later, for every process and queue, that every lease and hiding is over."""
        self.forks.advance_clock(_LATER_MS)
        self.store.show(self._hidden)
        self._hidden.clear()

    def request(self, stop: Stop | None = None, *, key: str = KEY) -> Run:
        """A client sends its request, or sends it again."""
        event = with_key(with_body(load("apigw_http_v2_post"), json.dumps(REQUEST)), key)
        return self._invoked(API, event, stop)

    def changes(self) -> list[Record]:
        """What is new in the outbox's stream, until it is acknowledged."""
        written = self.store.written()
        return [each for each in written if int(sequence_number(each)) > self._acknowledged]

    def relay(self, changes: Sequence[Record], stop: Stop | None = None) -> Run:
        """The relay gets these changes; `acknowledge` says what became of them."""
        return self._invoked(RELAY, {"Records": list(changes)}, stop)

    def acknowledge(self, run: Run, changes: Sequence[Record]) -> bool:
        """Read on after what has succeeded; whether that is all."""
        ids = [sequence_number(change) for change in changes]
        failed = _failures(run, ids)
        done = ids[: ids.index(failed[0])] if failed else ids
        self._acknowledged = max([self._acknowledged, *map(int, done)])
        return not failed

    def receive(self, most: int = _DELIVERED_AT_ONCE) -> list[Record]:
        """Messages, which are nobody else's until it is `later`."""
        messages = self.store.receive(most)
        self._hidden |= {message["receiptHandle"] for message in messages}
        return messages

    def work(
        self, messages: Sequence[Record], stop: Stop | None = None, *, holds_clock: bool = False
    ) -> Run:
        """The worker gets these messages; `settle` says what became of them.

        With `holds_clock`, time stands still in it.
        """
        return self._invoked(WORKER, {"Records": list(messages)}, stop, holds_clock=holds_clock)

    def settle(self, run: Run, messages: Sequence[Record]) -> bool:
        """Delete what has succeeded, as Lambda does; whether that is all."""
        failed = _failures(run, [message["messageId"] for message in messages])
        for message in messages:
            if message["messageId"] not in failed:
                self.store.delete(message["receiptHandle"])
                self._hidden.discard(message["receiptHandle"])
        return not failed

    def resume(self, stopped: Run) -> Run:
        """Let a process that is stopped go on to its end; only what it does from then on."""
        return self.forks.resume(stopped)

    def _invoked(
        self, name: str, event: dict[str, Any], stop: Stop | None, *, holds_clock: bool = False
    ) -> Run:
        environment = self.environments[name]
        order = {"function": name, "environment": environment, "event": event}
        return self.forks.start(name, {**order, "holds_clock": holds_clock}, stop)


def _failures(run: Run, ids: Sequence[str]) -> tuple[str, ...]:
    """Which of a batch have failed, as Lambda judges it."""
    if run.ended != "exit 0":
        outcome = Outcome(kind=OutcomeKind.DIED)
    else:
        payload = json.dumps(run.answer).encode()
        outcome = Outcome(kind=OutcomeKind.RESULT, payload=payload)
    return judge(outcome, ids, partial_answers=True).failed


@contextlib.contextmanager
def golden_world() -> Iterator[GoldenWorld]:
    """Servers and the parent of the processes; all end with the block, or with this process."""
    with (
        tempfile.TemporaryDirectory() as name,
        running_provider() as provider,
        running_store() as store_url,
    ):
        environments = _environments(store_url, provider.url, Path(name))
        with running_forks(_CHILD, Path(name), environments[API]) as forks:
            yield GoldenWorld(GoldenStore(store_url), provider, forks, environments)


def _environments(store_url: str, provider_url: str, folder: Path) -> dict[str, dict[str, str]]:
    place = Place(
        store_url=store_url,
        provider_url=provider_url,
        home=str(folder),
        overrides={
            # A busy machine must not make a call count twice.
            "ONCEKEY_STORE_TIMEOUT_MS": "20000",
            # The pauses are read first and change nothing: a kill there is one before any call. The
            # time since the last read must not decide which calls a process makes.
            "ONCEKEY_PAUSE_CHECK_S": "0",
            "CLOCK_FILE": str(clock_file(folder)),
        },
    )
    return {each.name: function_environment(SERVICE, each, place) for each in SERVICE.functions}
