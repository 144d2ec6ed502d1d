"""Every exception of the library: when it is raised, and what to do now.

Only the standard library is imported here, because everything else imports this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping


class OncekeyError(Exception):
    """The root of all exceptions that the library raises."""


class ConfigurationError(OncekeyError, ValueError):
    """The library is used or configured wrongly; all faults found are in one message.

    Raised when a handler is decorated, or at the first call where the environment is at fault.
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

    Raise it only for what is proven not to have been executed, such as a refusal by the provider. A
    timeout proves nothing. One that comes out of an idempotent function speaks of that function
    alone: what its caller did before is not undone by it. One object may be raised again and again.
    """


class Final(OncekeyError):  # noqa: N818 -- an answer, not an error
    """Raised anywhere below a handler to end its operation with this answer.

    It is stored, whatever its status.
    `body` is sent as it is if it is text, and as JSON otherwise. `headers` come on top of its
    content type. What the operation has collected in `op.transaction` and `op.outbox` is discarded,
    unless `commit`: then it is applied together with this answer.
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
        # The body may hold what no log should.
        return f"the operation ends with status {self.status}"

    def __repr__(self) -> str:
        return f"Final({self.status})"


class RequestRefused(OncekeyError):  # noqa: N818 -- not an error of the program: an answer to the caller
    """A request that is answered without reaching the handler, and without a write.

    `code` is the stable problem code of the answer; `detail` says what the caller can do about it,
    and `retry_after_ms` when, where waiting helps.
    """

    def __init__(self, code: str, detail: str, retry_after_ms: int | None = None) -> None:
        self.code = code
        self.detail = detail
        self.retry_after_ms = retry_after_ms
        super().__init__(code, detail, retry_after_ms)


class StoreError(OncekeyError):
    """The store did not do what it was asked; what was asked may still have been applied.

    `transient`: asking again may succeed. Otherwise (no permission, no such table, a mistake in the
    call) only a change of the deployment or of the code helps. `contention`: the store is well, but
    others are writing the same items (`conflict`) or count in the same counter (`counter`), our own
    first sending is still at work (`in-progress`), or there is more to do than one key, table or
    account takes (`throttled`). `is_mistake`: no answer came, and not for a lack of one: the call
    cannot be made like that.
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
        # What did not answer is the bucket, which says nothing of the table.
        self.is_of_bucket = False
        # What the service itself said about the deployment; never a value.
        self.said = ""
        super().__init__(reason)

    @property
    def is_harmless(self) -> bool:
        """Whether what was asked for has certainly not been applied, now or later."""
        return self.contention in {"conflict", "counter", "throttled"}

    @property
    def is_outage(self) -> bool:
        """Whether the next request, whoever sends it, is likely to fail as well.

        Contention is a key's or a tenant's own; a mistake, its author's.
        """
        return self.transient and self.contention is None and not self.is_of_bucket

    @property
    def needs_deployment(self) -> bool:
        """Whether the store said that it has another form than is needed, or is not there.

        A permission or a credential may be on its way.
        """
        is_of_rights = self.said.startswith(("not authorized", "The security token"))
        return bool(self.said) and not self.transient and not is_of_rights

    @property
    def kind(self) -> str:
        """`contention`, `outage`, `mistake`, or `configuration`; of the bucket, too."""
        if self.contention is not None:
            return "contention"
        if self.transient:
            return "outage"
        return "mistake" if self.is_mistake else "configuration"

    def at(self, where: str, name: str = "its name") -> StoreError:
        """The same final failure, with the place that it happened at, and what to look at."""
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
        return (_store_error, (self.reason, self.transient), dict(vars(self)))


def _store_error(reason: str, transient: bool) -> StoreError:  # noqa: FBT001 -- called by pickle only
    return StoreError(reason, transient=transient)


class CallNotAnswered(OncekeyError):  # noqa: N818 -- what its subclasses have in common
    """A call of an idempotent function that ended without the function's result.

    Attributes:
        operation: the function's declared name.
        operation_id: the record's life that stood in the way, where one did and is known.
        retry_after_s: when calling again may end otherwise; None where waiting does not help.
        detail: what else is known about the reason. Never a key or a payload.
        retryable: True means "same key, wait"; False means "do not make this call again".
        completed: the call was carried out, and no further one is needed: a worker acknowledges its
            message.
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
        """The same, where this time no waiting helps, whatever is so of its kind."""
        vars(self)["retryable"] = False
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by Exception's own pickling. Notes that somebody added are
        # in its dictionary.
        return (_call_not_answered, (type(self), *self.args), dict(vars(self)))


def _call_not_answered(
    kind: type[CallNotAnswered],
    operation: str,
    operation_id: str | None,
    retry_after_s: int | None,
    detail: str,
) -> CallNotAnswered:
    return kind(
        operation=operation,
        operation_id=operation_id,
        retry_after_s=retry_after_s,
        detail=detail,
    )


class InProgress(CallNotAnswered):
    """The first call with this key is still running, or this one could not commit beside others."""

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
    """The store could not be reached before the function ran, or did not confirm a commit of it.

    The same call, made again, runs, goes on where its record says, or gets the result.
    """

    retryable = True
    advice = (
        "the store is unavailable, and without it the call could not be protected or confirmed;"
        " make the same call with the same key again later: it then runs, or returns its result"
    )


class CallUnfinished(CallNotAnswered):
    """An attempt ended before it had a result, and some of its steps may have taken effect.

    The same call, made again, goes on where its record says.
    """

    retryable = True
    advice = (
        "this attempt ended before it had a result, and what its steps have done stands; make the"
        " same call with the same key again later: it goes on where it was"
    )


class QuotaExceeded(CallNotAnswered):
    """The tenant has as many new or active keys, or look-ups, as it may; this call did nothing."""

    retryable = True
    advice = "the tenant's quota is used up; make the same call with the same key again later"


class KeyMissing(CallNotAnswered):
    """The call has no key that could tell it from other calls, so the function did not run."""

    advice = (
        "the call has no usable key; nothing was done, make it again with arguments that `key=`"
        " finds a key in"
    )


class ResultUnavailable(CallNotAnswered):
    """The call was carried out, and its result cannot be given again.

    The work is done: the worker of a queue acknowledges the message, and does not report it as
    failed.
    """

    completed = True
    advice = (
        "the call was carried out, and its result cannot be given again; do not repeat it with"
        " another key, look its effect up where it was made"
    )


class JobUnfinished(CallNotAnswered):
    """An accepted request was worked on, and its answer is not final, or not on record."""

    retryable = True
    advice = (
        "the work ended without a final answer on record; let the queue deliver its message again"
    )


class EnvelopeUnreadable(ValueError):  # noqa: N818 -- a property of what was received
    """What was received is no message of an outbox. The text never repeats it."""


class RunStopped(BaseException):
    """Raised out of a step or a commit when this attempt must not go on; let it pass.

    Another attempt has taken over, the store did not confirm a checkpoint, or the code does not fit
    what is on record. It is no `Exception`, so that a handler does not catch it by mistake;
    whatever the handler makes of it, the operation answers for what is on record.
    """


class EffectMisused(OncekeyError, RuntimeError):  # noqa: N818 -- what an author did, not an error of ours
    """A step, commit or transaction is used in a way that could not be resumed; change the code.

    What was asked for has not been done. Inside a step that is not idempotent it is an error like
    any other: the step is in doubt.
    """


class TransactionInvalid(OncekeyError, ValueError):  # noqa: N818 -- as above
    """What was collected does not fit into one DynamoDB transaction; nothing of it was applied.

    The message names the item, by its number in the order of collection and its table (or a
    message by its topic), and the limit.
    """


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """A write whose condition did not hold.

    `item` is what it met, if anything, as Python values; it is left out of logs and `repr`.
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
    """A condition of the author's did not hold; nothing of the transaction was applied.

    Raised by `op.commit`, to be mapped to an answer, where the write names no `otherwise`; what was
    collected for it is discarded. By the protected handler itself, if the final commit failed so;
    the same key may then run again.
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
