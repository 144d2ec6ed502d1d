"""The operation object, which a running handler gets for its operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from oncekey.errors import ConfigurationError
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.effects.outbox import Outbox
    from oncekey.effects.recorded_work import RecordedWork
    from oncekey.effects.transaction import Transaction

R = TypeVar("R")


class Operation(Value, kw_only=True):
    """One attempt at one operation.

    `operation_id` is a random UUID, the same in all attempts. Derive business ids and messages from
    it and never from the client's key, because the same key is a new operation after its expiry.
    `tenant` is never empty. `protected` is False if the handler runs bare (ONCEKEY_DISABLED, or a
    request that needs no key). Steps, transaction and outbox work, with new ids. Under
    ONCEKEY_DISABLED, outside Lambda, collected writes and messages are checked and dropped.
    `reference` names the operation for `oncekey.settle`: give it to a provider as metadata, so that
    its webhook can settle the operation if its outcome is unknown. `key_for_logs` is the
    idempotency key as the record shows it: empty with `store_raw_key=False`, and without a record.
    """

    name: str
    operation_id: str
    attempt: int
    tenant: str
    principal: str = field(default="", repr=False)
    reference: str = ""
    key_for_logs: str = field(default="", repr=False)
    protected: bool = True
    _work: RecordedWork | None = field(default=None, repr=False, compare=False)

    @property
    def records_effects(self) -> bool:
        """Whether the operation is declared `effects="recorded"`."""
        return self._work is not None

    @property
    def is_unused(self) -> bool:
        """Whether this is a recorded operation whose effects have not been used yet."""
        return self._work is not None and not self._work.use.is_used

    @property
    def has_collected(self) -> bool:
        """Whether writes or messages were collected that are not applied yet."""
        return self._work is not None and bool(self._work.collected)

    @property
    def transaction(self) -> Transaction:
        """Collects business writes, which are applied together with the operation's completion.

        Raises:
            ConfigurationError: the operation is not declared `effects="recorded"`.
        """
        return self._recorded("transaction").transaction

    @property
    def outbox(self) -> Outbox:
        """Collects messages, which are written together with the operation's completion.

        Raises:
            ConfigurationError: as for `transaction`.
        """
        return self._recorded("outbox").outbox

    def step(self, name: str, function: Callable[[], R], *, idempotent: bool = False) -> R:
        """Run `function`, one outside effect, once over all attempts, and record its result.

        When it returns, the result is durable: a resuming attempt gets an equal result without
        running `function`. Results are stored like those of `idempotent_function`. If the process
        dies while `function` runs, the step is in doubt. Nothing runs again before its resolver or
        a person has settled it. With `idempotent=True`, the step is not marked before it runs, and
        a retry runs it again. Use this only if the provider refuses a repeat, for example by
        `op.downstream_key(name)`.

        Exceptions are passed on. `NotExecuted`, or an error that `not_executed=` accepts, proves
        that the step did nothing. After any other exception, a step that is not idempotent is in
        doubt, even if the handler catches the exception. `Final` is the step's result: it ends an
        HTTP handler's operation, and a resuming attempt raises it again. If `function` returns the
        answer of another protected operation that says "same key, wait", the step has not ended,
        as after an exception.

        Steps run one after the other. They must keep their names and their order between releases.

        Args:
            name: the step's name within the operation, 1 to 64 characters.
            function: called without arguments; use a `lambda` or `functools.partial` to pass some.
            idempotent: whether another run is harmless.

        Raises:
            RunStopped: this attempt must not continue. Do not catch it.
            EffectMisused: the step is inside another step, its name is used twice, `function` is
                not a function or is a generator, or `idempotent` is neither True nor False.
            TypeError: the result cannot be stored. The step is on record as done, and no attempt
                can resume after it.
            ConfigurationError: as for `transaction`.
        """
        return self._recorded("step").step(name, function, is_idempotent=idempotent)

    async def step_async(
        self, name: str, function: Callable[[], Awaitable[R]], *, idempotent: bool = False
    ) -> R:
        """The same for a coroutine function. Calls of the store do not block the event loop.

        A step that is cancelled before `function` is called counts as never begun. A step that is
        cancelled while `function` runs is in doubt. A cancellation waits while a result is
        recorded.
        """
        work = self._recorded("step_async")
        return await work.step_async(name, function, is_idempotent=idempotent)

    def commit(self, name: str) -> None:
        """Apply the collected writes and messages together with the recovery point `name`.

        All of them are applied in one transaction, or none. A resuming attempt does not apply them
        again. Commits and steps share one order and one set of names.

        Raises:
            ConditionFailed: the condition of one of your writes did not hold. Nothing was applied,
                the collected writes and messages are discarded, and the run may continue.
            Final: the same, if that write names it as its `otherwise`.
            TransactionInvalid: DynamoDB refuses the transaction. Otherwise the same.
            RunStopped: this attempt must not continue. Do not catch it.
        """
        self._recorded("commit").commit(name)

    async def commit_async(self, name: str) -> None:
        """The same. Calls of the store do not block the event loop."""
        await self._recorded("commit_async").commit_async(name)

    def discard(self) -> None:
        """Discard the writes and messages collected since the last commit.

        An answer that is not final, or an exception, discards them as well.
        """
        self._recorded("discard").discard()

    def downstream_key(self, name: str) -> str:
        """The idempotency key to send to a provider with the call `name`.

        It is a UUID, the same in every attempt. Send it with every outside call. The provider can
        then refuse a call that arrives late, after its attempt has died.
        """
        given: object = name
        if not isinstance(given, str) or not given:
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
    """The key that an operation sends to a provider with the call `name`, in every attempt."""
    import uuid

    return str(uuid.uuid5(uuid.UUID(operation_id), name))
