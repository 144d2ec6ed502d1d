"""The functions of a table and its reconciler use the same shards of the index `due`."""

from __future__ import annotations

import pytest
from aws_cdk import Token
from aws_cdk.assertions import Template

from tests.support.sample_constructs import build_service, new_stack


def synthesise(of_function: str, of_reconciler: str | None) -> None:
    """Make the template of a service whose functions are told these numbers.

    Raises:
        RuntimeError: something is found in it.
    """
    stack = new_stack()
    service = build_service(stack)
    service["function"].function.add_environment("ONCEKEY_DUE_SHARDS", of_function)
    if of_reconciler is not None:
        reconciler = service["reconciler"].reconciler.function
        reconciler.add_environment("ONCEKEY_DUE_SHARDS", of_reconciler)
    Template.from_stack(stack)


@pytest.mark.parametrize(("of_function", "of_reconciler"), [("17", None), ("64", "63")])
def test_shards_that_the_reconciler_does_not_read_fail_the_synthesis(
    of_function: str, of_reconciler: str | None
) -> None:
    """A function that uses more shards than its reconciler reads is refused.

    Its unknown operations would stay so, and nobody would be told.
    """
    with pytest.raises(RuntimeError, match=f"has ONCEKEY_DUE_SHARDS {of_function}, and its recon"):
        synthesise(of_function, of_reconciler)


@pytest.mark.parametrize(
    ("of_function", "of_reconciler"), [("64", "64"), ("32", "64"), ("16", None), ("8", "4")]
)
def test_a_reconciler_that_reads_all_shards_is_let_be(
    of_function: str, of_reconciler: str | None
) -> None:
    """A reconciler may be told more shards than the functions. It reads at least sixteen."""
    synthesise(of_function, of_reconciler)


def test_a_number_that_only_the_deployment_knows_is_let_be() -> None:
    """A number of shards that a parameter gives is taken to be right."""
    synthesise(Token.as_string({"Ref": "Shards"}), "4")
