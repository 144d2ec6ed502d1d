"""The operation object: what a running handler knows of the operation it carries out."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from oncekey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from oncekey.effects.outbox import Outbox
    from oncekey.effects.recorded_work import RecordedWork
    from oncekey.effects.transaction import Transaction

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One attempt at one operation.

    `operation_id` is a random UUID, the same over all attempts; derive business ids and messages
    from it, never from the client's key: after the key's expiry the same key is a new operation.
    `tenant` is never empty. `protected` is False where the handler runs bare (ONCEKEY_DISABLED, or
    a method that needs no key); everything else works there as well, with ids of its own.
    `reference` names the operation to `oncekey.settle`: give it to a provider as metadata, so that
    its webhook can settle what has become unknown.
    """

    name: str
    operation_id: str
    attempt: int
    tenant: str
    principal: str = field(default="", repr=False)
    reference: str = ""
    protected: bool = True
    _work: RecordedWork | None = field(default=None, repr=False, compare=False)

    @property
    def records_effects(self) -> bool:
        """Whether the operation is declared `effects="recorded"`."""
        return self._work is not None

    @property
    def is_unused(self) -> bool:
        """Whether a recorded operation has not been asked for anything yet."""
        return self._work is not None and not self._work.use.is_used

    @property
    def transaction(self) -> Transaction:
        """Collects business writes, to be applied with the operation's completion.

        Raises:
            ConfigurationError: the operation is not declared `effects="recorded"`.
        """
        return self._recorded("transaction").transaction

    @property
    def outbox(self) -> Outbox:
        """Collects messages, to be written with the operation's completion.

        Raises:
            ConfigurationError: as for `transaction`.
        """
        return self._recorded("outbox").outbox

    def step(self, name: str, function: Callable[[], R], *, idempotent: bool = False) -> R:
        """Run `function`, one outside effect, once over all attempts, and record its result.

        When it returns, the result is durable: an attempt that resumes gets an equal one without
        running `function`. Results are stored as those of `idempotent_function`. When the process
        dies in it, the step is in doubt, and nothing runs again before its resolver, or a person,
        has settled it. With `idempotent=True` it is not marked before it runs and simply runs
        again; say so only if the provider refuses a repeat, by `op.downstream_key(name)` or by its
        nature.

        An exception passes through. `NotExecuted`, and what `not_executed=` accepts, proves that
        the step did nothing. Any other leaves a step in doubt that is not idempotent, whatever the
        handler makes of it. `Final` is the step's result: it ends an HTTP handler's operation, and
        is raised again by an attempt that resumes.

        Steps run one after the other, and keep their names and their order between releases.

        Args:
            name: of the step within the operation, 1 to 64 characters.
            function: called without arguments; a `lambda` or `functools.partial` gives it some.
            idempotent: whether running it again is harmless.

        Raises:
            RunStopped: this attempt must not go on. Let it pass.
            EffectMisused: the step stands inside another, its name was used before, or `function`
                is no function.
            TypeError: the result has no form that can be stored. The step is on record as done,
                and no attempt can resume after it.
            ConfigurationError: as for `transaction`.
        """
        return self._recorded("step").step(name, function, is_idempotent=idempotent)

    async def step_async(
        self, name: str, function: Callable[[], Awaitable[R]], *, idempotent: bool = False
    ) -> R:
        """The same for a coroutine function; calls of the store leave the event loop free.

        Cancelled before `function` is called, the step is as if never begun. Cancelled in it, it is
        in doubt. While a result is recorded, a cancellation waits.
        """
        work = self._recorded("step_async")
        return await work.step_async(name, function, is_idempotent=idempotent)

    def commit(self, name: str) -> None:
        """Apply what was collected so far, together with the recovery point `name`, and go on.

        All of it is applied in one transaction, or nothing. An attempt that resumes does not apply
        it again. Commits and steps share one order and their names.

        Raises:
            ConditionFailed: a condition of yours did not hold; nothing was applied, what was
                collected is discarded, and the run may go on.
            Final: the same, of a write that names it as its `otherwise`.
            TransactionInvalid: DynamoDB refuses what was collected, as above.
            RunStopped: this attempt must not go on. Let it pass.
        """
        self._recorded("commit").commit(name)

    async def commit_async(self, name: str) -> None:
        """The same; the event loop is free while the store is called."""
        await self._recorded("commit_async").commit_async(name)

    def discard(self) -> None:
        """Forget what was collected since the last commit.

        Answers that are not final, and exceptions, do so by themselves.
        """
        self._recorded("discard").discard()

    def downstream_key(self, name: str) -> str:
        """The idempotency key to send to a provider for the call `name`.

        It is a UUID, the same over every attempt.

        Send it with every outside call, so that the provider can refuse one that arrives after its
        owner is dead.
        """
        if not name:
            raise ValueError("downstream_key needs a name for the call, such as 'charge'")
        if self._work is not None:
            self._work.use.note_key(name)
        return downstream_key(self.operation_id, name)

    def _recorded(self, what: str) -> RecordedWork:
        if self._work is None:
            raise ConfigurationError(
                f"op.{what} of {self.name!r}", ["declare the operation effects='recorded'"]
            )
        return self._work


def downstream_key(operation_id: str, name: str) -> str:
    """The key that the call `name` of an operation shows its provider, in every attempt."""
    return str(uuid.uuid5(uuid.UUID(operation_id), name))


_current: ContextVar[Operation | None] = ContextVar("oncekey_operation", default=None)


def current_operation() -> Operation:
    """The operation that is being carried out, from anywhere below its handler.

    Raises:
        LookupError: no decorated handler is running.
    """
    operation = _current.get()
    if operation is None:
        raise LookupError(
            "no oncekey operation is running here:"
            " call this below a handler decorated with @idempotent"
        )
    return operation


@contextmanager
def running(operation: Operation) -> Generator[None]:
    """Make `operation` the current one until the block is left."""
    token = _current.set(operation)
    try:
        yield
    finally:
        _current.reset(token)
