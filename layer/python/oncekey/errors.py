"""Every exception of the library: when it is raised, and what to do then.

This module imports only the standard library, because every other module imports it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping


class OncekeyError(Exception):
    """The root of all exceptions that the library raises."""


class ConfigurationError(OncekeyError, ValueError):
    """The library is used or configured wrongly; the message lists all faults found.

    Raised when a handler is decorated, or at the first call if the fault is in the environment.
    Nothing has been written.
    """

    def __init__(self, where: str, faults: list[str]) -> None:
        self.where = where
        self.faults = faults
        super().__init__(where, faults)

    def __str__(self) -> str:
        return f"{self.where}: " + "; ".join(self.faults)


class NotExecuted(OncekeyError):  # noqa: N818 -- a statement about the world, raised by authors, not an error of ours
    """Raised by a handler to state that nothing happened: the same key may run again at once.

    Raise it only if the work is proven not to have been executed, for example because the provider
    refused it. A timeout proves nothing. If an idempotent function raises it, it covers that
    function only, and not what the caller did before. The same object may be raised more than once.
    """


class Final(OncekeyError):  # noqa: N818 -- an answer, not an error
    """Raised anywhere below a handler to end its operation with this answer.

    The answer is stored, whatever its status. A text `body` is sent unchanged; any other is sent as
    JSON. `headers` are added to the content type. Writes and messages collected in `op.transaction`
    and `op.outbox` are discarded. With `commit`, they are applied together with this answer.
    """

    def __init__(
        self,
        status: int,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        commit: bool = False,
    ) -> None:
        self.commit = commit
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        super().__init__(status, body, self.headers)

    def __str__(self) -> str:
        # The body may hold data that must not be logged.
        return f"the operation ends with status {self.status}"

    def __repr__(self) -> str:
        return f"Final({self.status})"


class RequestRefused(OncekeyError):  # noqa: N818 -- not an error of the program: an answer to the caller
    """A request that is refused before the handler runs, and without a write.

    `code` is the stable problem code of the answer. `detail` says what the caller can do.
    `retry_after_ms` says when to try again; None if waiting does not help.
    """

    def __init__(self, code: str, detail: str, retry_after_ms: int | None = None) -> None:
        self.code = code
        self.detail = detail
        self.retry_after_ms = retry_after_ms
        super().__init__(code, detail, retry_after_ms)


class StoreError(OncekeyError):
    """A call to the store failed; its write may still have been applied.

    `transient`: another attempt may succeed. Otherwise (no permission, no such table, a mistake in
    the call) only a change of the deployment or of the code helps. `contention`: the store is
    healthy, but other writers use the same items (`conflict`) or the same counter (`counter`), our
    own first request is still being processed (`in-progress`), or the key, table or account has
    reached its limit (`throttled`). `is_mistake`: the call itself is wrong; it failed in code and
    not for want of an answer.
    """

    def __init__(
        self,
        reason: str,
        *,
        transient: bool,
        contention: str | None = None,
        is_mistake: bool = False,
    ) -> None:
        self.reason = reason
        self.transient = transient
        self.contention = contention
        self.is_mistake = is_mistake
        # The bucket failed, not the table. Its failure does not say that the table is down.
        self.is_of_bucket = False
        # There was no connection, or it broke before the whole request was sent.
        self.is_unsent = False
        # The client had sent the request before, by itself. That sending may still be applied.
        self.is_after_retry = False
        # The service's own words about the deployment; never a value.
        self.said = ""
        super().__init__(reason)

    @property
    def is_harmless(self) -> bool:
        """Whether the write is certainly not applied, neither now nor later."""
        is_refused = self.contention in {"conflict", "counter", "throttled"}
        return (self.is_unsent or is_refused) and not self.is_after_retry

    @property
    def is_outage(self) -> bool:
        """Whether the next request is likely to fail as well, whatever its key and tenant.

        Contention concerns one key or tenant, and a mistake concerns one handler.
        """
        return self.transient and self.contention is None and not self.is_of_bucket

    @property
    def needs_deployment(self) -> bool:
        """Whether the store said that it does not exist or is set up differently.

        Errors of permissions and credentials do not count: these may take effect a little later.
        """
        of_rights = ("not authorized", "The security token", "no credentials")
        return bool(self.said) and not self.transient and not self.said.startswith(of_rights)

    @property
    def kind(self) -> str:
        """`contention`, `outage`, `mistake` or `configuration`, for the table and the bucket."""
        if self.contention is not None:
            return "contention"
        if self.transient:
            return "outage"
        return "mistake" if self.is_mistake else "configuration"

    def at(self, where: str, name: str = "its name") -> StoreError:
        """The same final failure, with the place where it happened and a hint what to check."""
        hint = f"check {name}, the Region and the function's permissions"
        if self.is_mistake:
            hint = "the error that this one was raised from says more"
        said = f" ({self.said})" if self.said else ""
        failure = StoreError(
            f"{self.reason} {where}: {hint}{said}", transient=False, is_mistake=self.is_mistake
        )
        failure.said = self.said
        return failure

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by Exception's own pickling.
        return (partial(StoreError, self.reason, transient=self.transient), (), dict(vars(self)))


class CallNotAnswered(OncekeyError):  # noqa: N818 -- the base of the classes below
    """A call of an idempotent function that ended without the function's result.

    Attributes:
        operation: the function's declared name.
        operation_id: the id of the operation that has this key, if it is known.
        retry_after_s: after how many seconds another call may succeed; None if waiting does not
            help.
        detail: more about the reason. Never a key or a payload.
        retryable: True means "same key, wait"; False means "do not make this call again".
        completed: the call was carried out and needs no repetition: a worker acknowledges its
            message. It is False once the error has left another protected function or handler,
            which has not ended.
    """

    retryable: ClassVar[bool] = False
    completed: ClassVar[bool] = False
    advice: ClassVar[str] = "the call was not answered"

    def __init__(
        self,
        *,
        operation: str,
        operation_id: str | None = None,
        retry_after_s: int | None = None,
        detail: str = "",
    ) -> None:
        self.operation = operation
        self.operation_id = operation_id
        self.retry_after_s = retry_after_s
        self.detail = detail
        super().__init__(operation, operation_id, retry_after_s, detail)

    def __str__(self) -> str:
        life = f" (operation {self.operation_id})" if self.operation_id else ""
        reason = f" ({self.detail})" if self.detail else ""
        wait = f" Wait {self.retry_after_s} s." if self.retry_after_s is not None else ""
        return f"{self.operation}{life}: {self.advice}{reason}.{wait}"

    def in_vain(self) -> CallNotAnswered:
        """This error, marked as not retryable although its class is."""
        vars(self)["retryable"] = False
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by Exception's own pickling. The dictionary also holds
        # the notes that were added to the exception.
        names = ("operation", "operation_id", "retry_after_s", "detail")
        given = dict(zip(names, self.args, strict=True))
        return (partial(type(self), **given), (), dict(vars(self)))


class InProgress(CallNotAnswered):
    """The first call with this key is still running, or others write the same items."""

    retryable = True
    advice = (
        "the first call with this key is still running; make the same call with the same key again"
        " later, because a new key would run it twice"
    )


class KeyReused(CallNotAnswered):
    """The key belongs to a call with other arguments; this one did nothing."""

    advice = (
        "this key was used for a call with other arguments; nothing was done, take a new key for a"
        " new call"
    )


class OutcomeUnknown(CallNotAnswered):
    """A call with this key was interrupted, and may have taken effect."""

    retryable = True
    advice = (
        "a call with this key was interrupted and may have taken effect; make the same call with"
        " the same key again later, when it is settled, because a new key could run it twice"
    )


class StoreUnavailable(CallNotAnswered):
    """The store could not be reached before the function ran, or did not confirm its commit.

    The same call, made again, runs, resumes at its recovery point, or returns the result.
    """

    retryable = True
    advice = (
        "the store is unavailable, and without it the call could not be protected or confirmed;"
        " make the same call with the same key again later: it then runs, or returns its result"
    )


class CallUnfinished(CallNotAnswered):
    """An attempt ended before it had a result, and some of its steps may have taken effect.

    The same call, made again, resumes at its recovery point.
    """

    retryable = True
    advice = (
        "this attempt ended before it had a result, and what its steps have done stands; make the"
        " same call with the same key again later: it goes on where it was"
    )


class Paused(CallNotAnswered):
    """An operator has paused new work of the operation or the tenant; the function did not run.

    `detail` is the operator's reason.
    """

    retryable = True
    advice = (
        "new work is paused, and this call was not carried out now; make the same call with the"
        " same key again later"
    )


class QuotaExceeded(CallNotAnswered):
    """The tenant has reached its limit of new keys, active keys or look-ups; nothing was done."""

    retryable = True
    advice = "the tenant's quota is used up; make the same call with the same key again later"


class KeyMissing(CallNotAnswered):
    """The call has no usable key, so the function did not run."""

    advice = (
        "the call has no usable key; nothing was done, make it again with arguments that `key=`"
        " finds a key in"
    )


class ResultUnavailable(CallNotAnswered):
    """The call was carried out, and its result cannot be given again.

    A queue's worker acknowledges the message and does not report it as failed.
    """

    completed = True
    advice = (
        "the call was carried out, and its result cannot be given again; do not repeat it with"
        " another key, look its effect up where it was made"
    )


class JobUnfinished(CallNotAnswered):
    """A worker ran a job, and the job has no final answer on record yet."""

    retryable = True
    advice = (
        "the work ended without a final answer on record; let the queue deliver its message again"
    )


class EnvelopeUnreadable(ValueError):  # noqa: N818 -- a property of what was received
    """The received text is not a message of an outbox. The error text never repeats it."""


class TopicUnknown(ValueError):  # noqa: N818 -- as above
    """A worker has no handler for the topic of a message. The error text says what to add."""


class RunStopped(BaseException):
    """Raised out of a step or a commit when this attempt must not continue; do not catch it.

    Another attempt has taken over, the store did not confirm a checkpoint, or the code does not fit
    the steps on record. It is not an `Exception`, so that a handler does not catch it by mistake.
    If a handler does catch it, the operation is still answered from its record.
    """


class EffectMisused(OncekeyError, RuntimeError):  # noqa: N818 -- what an author did, not an error of ours
    """A step, commit or transaction is used in a way that could not be resumed; change the code.

    The requested step, commit or write was not carried out. Inside a step that is not idempotent,
    this is an error like any other: the step is in doubt.
    """


class TransactionInvalid(OncekeyError, ValueError):  # noqa: N818 -- as above
    """The collected writes do not fit into one DynamoDB transaction; none of them was applied.

    The message names the limit and the item: a write by its number (in the order of collection) and
    its table, an outbox message by its topic.
    """


class RefusedWrite(Value):
    """A write whose condition did not hold.

    `item` is the item found in the table, as Python values, or None; logs and `repr` omit it.
    """

    number: int
    kind: str
    table: str
    item: Mapping[str, Any] | None

    def __str__(self) -> str:
        return f"item {self.number} ({self.kind} on {self.table})"

    def __repr__(self) -> str:
        return f"RefusedWrite({self})"


class ConditionFailed(OncekeyError):  # noqa: N818 -- an answer of the database, not an error
    """The condition of one of the handler's writes did not hold; the transaction was not applied.

    `op.commit` raises it if the write names no `otherwise`, so that the handler can turn it into an
    answer. The collected writes are discarded. If the final commit fails this way, the protected
    handler raises it, and the same key may then run again.
    """

    def __init__(self, writes: tuple[RefusedWrite, ...]) -> None:
        self.writes = writes
        super().__init__(writes)

    def __str__(self) -> str:
        failed = ", ".join(map(str, self.writes))
        return (
            f"nothing was committed, because a condition did not hold: {failed}; give the write"
            " otherwise=Final(...), or catch this around op.commit"
        )
