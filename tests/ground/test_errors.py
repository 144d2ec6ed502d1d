"""The exceptions: they cross processes, and show no payload."""

from __future__ import annotations

import copy
import pickle

import pytest

from oncekey import errors
from oncekey.errors import (
    CallNotAnswered,
    CallUnfinished,
    ConditionFailed,
    ConfigurationError,
    EffectMisused,
    EnvelopeUnreadable,
    Final,
    InProgress,
    JobUnfinished,
    KeyMissing,
    KeyReused,
    NotExecuted,
    OncekeyError,
    OutcomeUnknown,
    Paused,
    QuotaExceeded,
    RefusedWrite,
    RequestRefused,
    ResultUnavailable,
    RunStopped,
    StoreError,
    StoreUnavailable,
    TopicUnknown,
    TransactionInvalid,
)

EXAMPLES: list[BaseException] = [
    OncekeyError("message"),
    ConfigurationError("@idempotent(...)", ["a fault", "another"]),
    NotExecuted("refused by the provider"),
    Final(402, {"card": "4242secret"}, {"X-Reason": "declined"}),
    Final(204),
    RequestRefused("key-invalid", "It has 3 characters."),
    StoreError("throttled", transient=True),
    StoreError("no such table", transient=False),
    CallNotAnswered(operation="charge", operation_id="op-1", retry_after_s=3, detail="why"),
    InProgress(operation="charge", operation_id="op-1", retry_after_s=3),
    KeyReused(operation="charge", operation_id="op-1"),
    OutcomeUnknown(operation="charge", operation_id="op-1", retry_after_s=60),
    StoreUnavailable(operation="charge", retry_after_s=1),
    Paused(operation="charge", retry_after_s=30, detail="provider down"),
    QuotaExceeded(operation="charge", retry_after_s=40),
    KeyMissing(operation="charge", detail="it is blank"),
    ResultUnavailable(operation="charge", operation_id="op-1"),
    JobUnfinished(operation="POST /reports", operation_id="op-1", retry_after_s=1),
    CallUnfinished(operation="charge", operation_id="op-1", retry_after_s=1),
    EnvelopeUnreadable("no message of an outbox"),
    TopicUnknown("no handler for this topic"),
    RunStopped("another attempt has taken over"),
    EffectMisused("steps overlap"),
    TransactionInvalid("item 1 is too large"),
    ConditionFailed((RefusedWrite(1, "put", "payments", {"pk": "4242secret"}),)),
]
# What is caught as another family: what a handler must not catch, and what is said of a message.
OF_ANOTHER_ROOT = {RunStopped, EnvelopeUnreadable, TopicUnknown}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_exception_survives_pickling_and_copying(error: BaseException) -> None:
    """An exception that crosses to another process keeps its type and every attribute."""
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 -- our own bytes
        assert type(other) is type(error)
        assert vars(other) == vars(error)
        assert other.args == error.args
        assert str(other) == str(error)


def test_every_exception_is_among_the_examples() -> None:
    """No exception of the library goes untested, and all but three have one root."""
    defined = {
        item
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, BaseException)
    }

    assert defined == {type(error) for error in EXAMPLES}
    assert {item for item in defined if not issubclass(item, OncekeyError)} == OF_ANOTHER_ROOT


def test_a_final_shows_its_status_and_no_body() -> None:
    """The text of `Final`, which may be logged, holds neither body nor headers."""
    final = Final(402, {"card": "4242secret"}, {"X-Reason": "4242secret"})

    assert str(final) == "the operation ends with status 402"


def test_a_finals_headers_are_its_own() -> None:
    """What happens to the caller's headers afterwards changes no answer."""
    headers = {"X-Reason": "declined"}
    final = Final(402, headers=headers)
    headers.clear()

    assert final.headers == {"X-Reason": "declined"}


def test_a_configuration_error_tells_where_and_every_fault() -> None:
    """One message names the place and all that is wrong, and is a ValueError to others."""
    error = ConfigurationError("oncekey settings", ["a is 0", "b is 1"])

    assert str(error) == "oncekey settings: a is 0; b is 1"
    assert isinstance(error, ValueError)


def test_a_store_error_tells_its_reason() -> None:
    """The text is the reason; whether asking again may help is an attribute."""
    error = StoreError("throttled", transient=True)

    assert (str(error), error.transient) == ("throttled", True)


# Whether the same call with the same key may be made again, and what the caller is told to do.
CALLS: dict[type[CallNotAnswered], tuple[bool, str]] = {
    InProgress: (True, "same key again later, because a new key would run it twice"),
    KeyReused: (False, "take a new key for a new call"),
    OutcomeUnknown: (True, "same key again later, when it is settled"),
    StoreUnavailable: (True, "make the same call with the same key again later"),
    Paused: (True, "new work is paused"),
    QuotaExceeded: (True, "quota is used up; make the same call with the same key again later"),
    KeyMissing: (False, "make it again with arguments that `key=` finds a key in"),
    ResultUnavailable: (False, "do not repeat it with another key"),
    JobUnfinished: (True, "let the queue deliver its message again"),
    CallUnfinished: (True, "same key again later: it goes on where it was"),
}


def test_every_way_not_to_answer_a_call_is_in_the_table() -> None:
    """No exception of a call goes without its retry advice."""
    assert set(CALLS) == set(CallNotAnswered.__subclasses__())


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
@pytest.mark.case(53)
def test_an_unanswered_call_says_whether_and_when_to_call_again(
    kind: type[CallNotAnswered],
) -> None:
    """The message names the operation and says what to do now; `retryable` says so to a program.

    Red when two situations share an exception, or one advises the wrong kind of retry.
    """
    retryable, advice = CALLS[kind]
    error = kind(operation="charge", operation_id="op-1", retry_after_s=3, detail="a reason")

    assert (kind.retryable, error.retryable) == (retryable, retryable)
    assert str(error).startswith("charge (operation op-1): ")
    assert advice in str(error)
    assert str(error).endswith(" (a reason). Wait 3 s.")


def test_an_unanswered_call_leaves_out_what_it_does_not_know() -> None:
    """Without an operation id, a reason or a time to wait the message has no gaps."""
    error = KeyReused(operation="charge")

    assert (error.operation_id, error.retry_after_s, error.detail) == (None, None, "")
    assert str(error) == f"charge: {KeyReused.advice}."


def test_an_unanswered_call_keeps_its_notes() -> None:
    """A note that somebody added crosses to another process with the exception."""
    error = InProgress(operation="charge")
    error.add_note("seen by the worker")

    assert pickle.loads(pickle.dumps(error)).__notes__ == ["seen by the worker"]  # noqa: S301 -- our own bytes
