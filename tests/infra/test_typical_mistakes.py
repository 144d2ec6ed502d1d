"""The mistakes with constructs that the page layer/docs/reference/errors.md lists, each made."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import aws_lambda as lambda_

from infra.oncekey_cdk import IdempotencyTable, IdempotentFunction, Outbox, Reconciler
from tests.support.documents import rows, text_of
from tests.support.mistakes import Made, Mistakes
from tests.support.sample_constructs import new_stack

BUILT = Mistakes("## When the app is synthesised")


def _function(**options: Any) -> object:
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    stack = new_stack()
    options.setdefault("table", IdempotencyTable(stack, "Table"))
    return IdempotentFunction(stack, "Function", code=code, handler="index.handler", **options)


@BUILT.told("timeout is 60, without a unit: write Duration.seconds(60)")
def _seconds_for_a_duration() -> None:
    _function(timeout=60)


@BUILT.told("tabel is no argument (did you mean table?)")
def _a_misspelt_argument() -> None:
    _function(table=None, tabel=IdempotencyTable(new_stack(), "Table"))


@BUILT.told("table is a str: give the IdempotencyTable itself")
def _a_tables_name_for_a_table() -> None:
    _function(table="records")


@BUILT.told(
    "table_props['point_in_time'] is no property of Table (did you mean point_in_time_recovery?)"
)
def _a_misspelt_override() -> None:
    IdempotencyTable(new_stack(), "Table", table_props={"point_in_time": True})


@BUILT.told("function_props['timeout'] is 60, without a unit: write Duration.seconds(60)")
def _seconds_for_a_duration_of_an_override() -> None:
    _function(function_props={"timeout": 60})


@pytest.mark.parametrize("mistake", [*BUILT], ids=lambda mistake: mistake[1].__name__)
def test_a_mistake_with_a_construct_says_what_to_write(mistake: tuple[str, Made]) -> None:
    """A wrong argument is refused by the construct's name, with what to write instead.

    Red when Python's or jsii's own error comes.
    """
    text, made = mistake

    assert text in Mistakes.said(made, {})


def test_all_wrong_arguments_are_told_at_once() -> None:
    """One message lists every wrong argument of a construct.

    Red when the first one alone is told.
    """
    with pytest.raises(ValueError, match=r"Reconciler .*every is 60.*timeout is 5") as refused:
        Reconciler(new_stack(), "Visits", tables=1, every=60, timeout=5)  # type: ignore[call-arg, arg-type]

    assert "tables is no argument (did you mean table?)" in str(refused.value)
    assert "table is missing" in str(refused.value)


def test_a_duration_that_is_left_out_passes() -> None:
    """None and a construct's own default are no mistakes.

    Red when everything but a Duration is refused.
    """
    Outbox(new_stack(), "Outbox", visibility_timeout=None)


def test_the_page_of_errors_lists_these_messages() -> None:
    """Each message stands on the page, in the order of this file, and no other does."""
    table = rows(text_of("layer/docs/reference/errors.md"), BUILT.heading)

    assert [row[0].strip("`") for row in table] == [text for text, _ in BUILT]
