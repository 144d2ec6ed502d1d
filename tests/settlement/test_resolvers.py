"""Resolvers: how they are declared and found, and what they are asked."""

from __future__ import annotations

from typing import Any

import pytest

from oncekey import Completed, ConfigurationError, NotExecuted, Question, resolver
from oncekey.effects.operation import downstream_key
from oncekey.record.policy import Encoding, Policy
from oncekey.record.steps import FinishedStep, StartedStep, Steps
from oncekey.settlement.resolvers import question_about, resolver_of
from tests.support.records import record

pytestmark = pytest.mark.usefixtures("no_resolvers")


def ask(question: Question) -> Completed:
    """A resolver."""
    return Completed(question.step)


def ask_otherwise(_question: Question) -> NotExecuted:
    """Another one."""
    return NotExecuted()


def test_a_resolver_is_found_by_operation_and_step() -> None:
    """The function stays as it is, and serves the step that it was declared for."""
    declared = resolver("POST /rides", "charge")(ask)

    assert declared is ask
    assert resolver_of("POST /rides", "charge") is ask
    assert resolver_of("POST /rides", "ship") is None
    assert resolver_of("POST /others", "charge") is None


def test_one_function_may_serve_several_steps() -> None:
    """It is told which one it is asked about."""
    resolver("POST /rides", "charge")(ask)
    resolver("POST /rides", "ship")(ask)

    assert resolver_of("POST /rides", "charge") is resolver_of("POST /rides", "ship") is ask


def test_a_step_has_one_resolver() -> None:
    """A second function for it is refused, by a message that names the first; which stays."""
    resolver("POST /rides", "charge")(ask)

    with pytest.raises(ConfigurationError) as raised:
        resolver("POST /rides", "charge")(ask_otherwise)

    assert str(raised.value) == (
        "@resolver('POST /rides', 'charge'):"
        f" the step has the resolver {ask.__module__}.ask already"
    )
    assert resolver_of("POST /rides", "charge") is ask


async def ask_some_time(_question: Question) -> Completed:
    """A resolver that nobody would await."""
    return Completed(None)


@pytest.mark.parametrize("declared", ["ask", None, ask_some_time])
def test_a_resolver_is_a_plain_function(declared: Any) -> None:
    """Anything else is refused when it is declared, and declares nothing."""
    with pytest.raises(ConfigurationError, match="decorated: decorate a function|a resolver is a"):
        resolver("POST /rides", "charge")(declared)

    assert resolver_of("POST /rides", "charge") is None


@pytest.mark.parametrize("declared", [lambda: Completed(1), lambda _question, _more: Completed(1)])
def test_a_resolver_takes_the_question_alone(declared: Any) -> None:
    """A function that cannot be called with it is refused when it is declared.

    Red when each call raises, and the operation is escalated some hours later.
    """
    with pytest.raises(ConfigurationError, match="takes one argument, the question"):
        resolver("POST /rides", "charge")(declared)


@pytest.mark.parametrize(
    ("operation", "step"), [(5, ""), ("POST /rides", None), ("POST /rides", 5)]
)
def test_a_resolver_names_its_subject_by_texts(operation: Any, step: Any) -> None:
    """The step of a whole operation is the empty text.

    Red when a resolver is declared that nobody ever finds.
    """
    with pytest.raises(ConfigurationError, match="str is needed"):
        resolver(operation, step)


def test_two_functions_without_a_name_are_two() -> None:
    """Lambdas are all called the same; the second does not take the place of the first."""
    resolver("POST /rides", "charge")(lambda _question: Completed(1))

    with pytest.raises(ConfigurationError, match="already"):
        resolver("POST /rides", "charge")(lambda _question: Completed(2))


def test_one_function_without_a_name_may_be_declared_twice() -> None:
    """It is the same one."""
    lambda_ = lambda _question: Completed(1)  # noqa: E731 -- a function without a name

    resolver("POST /rides", "charge")(lambda_)
    resolver("POST /rides", "charge")(lambda_)

    assert resolver_of("POST /rides", "charge") is lambda_


def test_a_module_that_is_loaded_again_declares_its_resolvers_again() -> None:
    """The same function by name takes the place of the first: a reload is no mistake."""
    resolver("POST /rides", "charge")(ask)

    def reloaded(question: Question) -> Completed:
        return Completed(question.attempt)

    reloaded.__module__, reloaded.__qualname__ = ask.__module__, ask.__qualname__
    resolver("POST /rides", "charge")(reloaded)

    assert resolver_of("POST /rides", "charge") is reloaded


@pytest.mark.parametrize("step", ["charge", ""])
def test_an_operation_is_named(step: str) -> None:
    """A resolver of nothing is refused when it is declared."""
    with pytest.raises(ConfigurationError, match="name the operation"):
        resolver("", step)


def test_a_whole_operation_has_a_resolver_of_its_own() -> None:
    """It is found without a step, and is no step's."""
    resolver("POST /rides")(ask)

    assert resolver_of("POST /rides", "") is ask
    assert resolver_of("POST /rides", "charge") is None
    with pytest.raises(ConfigurationError, match="the operation has the resolver .*ask already"):
        resolver("POST /rides")(ask_otherwise)


def test_a_question_says_what_was_begun_and_for_whom() -> None:
    """All of it is from the record, and the downstream key is the one that the step was given."""
    in_doubt = record(
        steps=Steps(
            started=StartedStep(name="charge", position=1, mark=2, at_ms=1_699_999_999_000),
            finished=(FinishedStep(name="hold", position=0, at_ms=1, result="null"),),
        )
    )

    assert question_about(in_doubt) == Question(
        operation="POST /payments",
        operation_id=in_doubt.operation_id,
        step="charge",
        downstream_key=downstream_key(in_doubt.operation_id, "charge"),
        tenant="tenant-1",
        principal="user-1",
        key="secret-key-0123456789",
        attempt=3,
        started_at_ms=1_699_999_999_000,
        reference=f"{in_doubt.pk}.{in_doubt.operation_id}",
        lease_until_ms=in_doubt.lease_until_ms,
    )
    assert in_doubt.lease_until_ms is not None


def test_a_question_about_a_whole_operation_names_no_step() -> None:
    """It tells when the first attempt began, and the key of any call that the handler made."""
    unknown = record()
    question = question_about(unknown)

    assert (question.step, question.downstream_key) == ("", "")
    assert question.started_at_ms == unknown.created_at_ms
    assert question.downstream_key_of("refund") == downstream_key(unknown.operation_id, "refund")


def test_a_question_says_under_which_version_an_answer_is_kept() -> None:
    """That of the operation's record; the first one, if a record of an old release says none."""
    policy = Policy(encoding=Encoding.RESULT, retention_s=3_600, response_version=4)

    assert question_about(record(policy=policy)).response_version == 4
    assert question_about(record(policy=None)).response_version == 1
