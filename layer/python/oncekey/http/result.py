"""The result of an attempt, from the value that its handler returned or the error it raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import is_proof
from oncekey.effects.handlers import has_not_run, is_awaitable, never_awaited
from oncekey.effects.raised import final_in
from oncekey.effects.running import is_spent
from oncekey.flow.commands import Answered, Raised, Unserialisable
from oncekey.http.answer import (
    answer_from,
    changed_by,
    final_answer,
    is_final,
    is_final_status,
    status_code,
    stored_and_given,
    stored_form,
    with_headers,
)
from oncekey.http.event import Shape
from oncekey.http.headers import for_replay
from oncekey.problem import is_our_refusal
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from oncekey.effects.operation import Operation
    from oncekey.flow.commands import Result
    from oncekey.http.event import HttpRequest
    from oncekey.http.policy import HttpPolicy


_NO_SUCCESS = 300
_REFUSED = 400
_SERVER_FAILED = 500


def returned(value: Any, request: HttpRequest, policy: HttpPolicy, operation: Operation) -> Result:
    """The result of the handler of `operation` that returned `value`.

    Without a record, `value` is passed on unchanged. It never raises, because the handler has run
    and its record must be written first.
    """
    try:
        if not operation.protected:
            return _unprotected(value, request.shape, policy, operation)
        warn_of_unused(operation, value)
        return _answered(value, request, policy, is_last_word=False)
    except BaseException as mistake:  # noqa: BLE001 -- an author's object may even raise SystemExit
        return Unserialisable(mistake)


def raised_bare(error: BaseException, shape: Shape) -> Result:
    """The result of a handler that raised `error` and ran without a record."""
    final = final_in(error)
    if final is None:
        return Raised(error)
    try:
        answer = with_headers(final_answer(final), {}, shape)
    except BaseException as mistake:  # noqa: BLE001 -- `Final` ends the operation, whatever its body does
        return Unserialisable(mistake, commits=final.commit)
    return Answered(value=answer, stored="", is_final=True, commits=final.commit)


def raised(
    error: BaseException, request: HttpRequest, policy: HttpPolicy, problem_base: str
) -> Result:
    """The result of a handler that raised `error`."""
    final = final_in(error)
    if final is not None:
        try:
            answer = final_answer(final)
        except BaseException as mistake:  # noqa: BLE001 -- `Final` ends the operation, whatever its body does
            return Unserialisable(mistake, commits=final.commit)
        return _answered(answer, request, policy, is_last_word=True, commits=final.commit)
    if not policy.stores_failures or not isinstance(error, Exception):
        return Raised(error)
    # The rule is asked only once. Two different answers would free the key and also call the
    # outcome unknown.
    if is_proof(Raised(error), policy.is_not_executed, is_spent):
        return Raised(error, is_proof=True)
    telemetry.failure_stored(policy.name, error)
    failure = policy.preset.refusal("request-failed", base=problem_base)
    return _answered(failure, request, policy, is_last_word=True, commits=False)


def _answered(
    value: Any,
    request: HttpRequest,
    policy: HttpPolicy,
    *,
    is_last_word: bool,
    commits: bool | None = None,
) -> Result:
    try:
        if type(value) is not dict and is_awaitable(value):
            return Raised(never_awaited(value), has_returned=True)
        text, answer = stored_and_given(value, request.shape)
    except BaseException as mistake:  # noqa: BLE001 -- from an author's object, as in `returned`
        if not is_last_word and not _seems_final(value, request.shape, policy):
            return Raised(mistake, has_returned=True)
        return Unserialisable(mistake, commits=commits_with(value) if commits is None else commits)
    status = status_code(answer)
    is_failure = status >= _SERVER_FAILED
    given = not is_failure if commits is None else commits
    # If an operation passes on the "not now" of another one, it has not ended either.
    passed_on = is_our_refusal(value)
    try:
        final = is_last_word or (_is_final(status, text, policy) and not passed_on)
    except BaseException as mistake:  # noqa: BLE001 -- the author's rule failed, so the end is unknown
        return Raised(mistake, has_returned=True)
    stored = text
    try:
        if policy.before_store is not None:
            changed = changed_by("before_store", policy.before_store(answer_from(text)))
            stored = stored_form(for_replay(changed, policy.replay_headers), request.shape)
        elif (kept := for_replay(answer, policy.replay_headers)) is not answer:
            stored = stored_form(kept, request.shape)
    except BaseException as mistake:  # noqa: BLE001 -- from the author's hook, as above
        if not final:
            return Raised(mistake, has_returned=True)
        return Unserialisable(mistake, commits=given)
    if passed_on:
        # The caller of this operation must recognise it as our refusal, too.
        answer["body"] = value["body"]
    return Answered(
        value=answer,
        stored=stored,
        is_final=final,
        commits=given,
        is_failure=is_failure,
        is_refusal=status >= _REFUSED,
    )


def _is_final(status: int, text: str, policy: HttpPolicy) -> bool:
    if policy.is_final is is_final:
        return is_final_status(status)
    # The author's rule gets its own copy of the answer, because it may change it.
    return _is_true(policy.is_final(answer_from(text)))


def _is_true(verdict: object) -> bool:
    if has_not_run(verdict):
        raise TypeError(
            "oncekey: store_when returned a coroutine or a generator, which nobody runs: return"
            " whether the answer is stored"
        ) from never_awaited(verdict)
    return bool(verdict)


def warn_of_unused(operation: Operation, value: Any) -> None:
    """Log if a handler with recorded effects succeeded without using its operation object."""
    if not operation.is_unused:
        return
    status = _status(value)
    if status is None or status < _NO_SUCCESS:
        telemetry.operation_unused(operation.name)


def commits_with(value: Any) -> bool:
    """Whether the writes that a handler collected are applied with the answer that it returned.

    They are not applied with an answer that reports a server failure, even if it is stored.
    """
    status = _status(value)
    return status is None or status < _SERVER_FAILED


def returned_to_worker(
    value: Any, request: HttpRequest, policy: HttpPolicy, _operation: Operation
) -> Result:
    """The same without a record in a worker, whose queue keeps the message of unfinished work."""
    try:
        is_last, commits = _ending(value, request.shape, policy)
    except BaseException as mistake:  # noqa: BLE001 -- as with a record: the author's rule failed
        return Raised(mistake, has_returned=True)
    return Answered(value=value, stored="", is_final=is_last, commits=commits)


def _unprotected(value: Any, shape: Shape, policy: HttpPolicy, operation: Operation) -> Result:
    """The result without a record, when nothing else checks whether the answer is final."""
    try:
        commits = operation.has_collected and all(_ending(value, shape, policy))
    except BaseException as mistake:  # noqa: BLE001 -- as with a record: the author's rule failed
        return Raised(mistake, has_returned=True)
    return Answered(value=value, stored="", is_final=True, commits=commits)


def _ending(value: Any, shape: Shape, policy: HttpPolicy) -> tuple[bool, bool]:
    """Whether `value` is the last word on a request without a record, and whether it commits.

    Raises:
        TypeError: the gateway sends an error in its place.
        BaseException: any exception of the author's rule, or of an object in `value`.
    """
    if is_our_refusal(value):
        return False, False
    is_own = policy.is_final is not is_final
    if hasattr(type(value), "as_answer"):
        # A framework's response, on its way. It was sent on already if it has no answer.
        status = status_code({"statusCode": value.status_code})
        answer = value.as_answer if is_own else None
    else:
        if is_awaitable(value):
            raise never_awaited(value)
        try:
            answer = stored_and_given(value, shape)[1]
            status = status_code(answer)
        except Exception:
            if not _seems_final(value, shape, policy):
                raise
            # It has no stored form. As with a record, its status decides.
            return True, commits_with(value)
    if not is_own or answer is None:
        is_last = is_final_status(status)
    else:
        is_last = _is_true(policy.is_final(answer))
    return is_last, is_last and status < _SERVER_FAILED


def _status(value: Any) -> int | None:
    try:
        said = value.get("statusCode") if isinstance(value, dict) else None
        status = said if said is not None else getattr(value, "status_code", None)
        if isinstance(status, str) and status.isdecimal():
            # API Gateway accepts such a text as a number.
            return int(status)
    except Exception:  # noqa: BLE001 -- an author's object may raise anything
        return None
    return status if isinstance(status, int) else None


def _seems_final(value: Any, shape: Shape, policy: HttpPolicy) -> bool:
    # A value that cannot be stored may still report success. With payload 2.0, so does a bare
    # value, which API Gateway sends as 200.
    try:
        # `type()` is used because `__class__` may be the author's code.
        if not issubclass(type(value), dict) or "statusCode" not in value:
            return shape is Shape.PAYLOAD_2
        return is_final(value) or policy.stores_failures
    except Exception:  # noqa: BLE001 -- as above
        return False
