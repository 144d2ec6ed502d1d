"""The table of IAM actions in infra/README.md is what the grants allow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template

from infra import oncekey_cdk
from oncekey_local.description.actions import RESERVE_ACTIONS
from tests.infra.test_grants import GRANTS
from tests.support.documents import rows, text_of
from tests.support.sample_constructs import grants, let_be, new_role, new_stack

README = text_of("infra/README.md")
ACTION = re.compile(r"`((?:dynamodb|sqs|s3|kms):[\w*]+)`")
RESERVED = "`IdempotencyTable.grant_reserve`"


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """The actions of each grant, and what a customer's key adds."""
    table: dict[str, tuple[set[str], set[str]]] = {}
    above: tuple[set[str], set[str]] = (set(), set())
    for grant, actions, key in rows(README, "## IAM"):
        reserve = table.get(RESERVED, above)
        above = (
            {*ACTION.findall(actions), *(above[0] if actions.startswith("the same") else ())},
            {
                *ACTION.findall(key),
                *(above[1] if key.startswith("the same") else ()),
                *(reserve[1] if key.startswith("as of") else ()),
            },
        )
        table[grant] = above
    return table


@pytest.fixture(scope="module")
def allowed() -> dict[str, tuple[set[str], set[str]]]:
    """What each grant of the constructs allows to a role of its own."""
    stack = new_stack()
    key = kms.Key(stack, "Key")
    kinds: list[Any] = [
        oncekey_cdk.IdempotencyTable,
        oncekey_cdk.Outbox,
        oncekey_cdk.ResponseBucket,
        oncekey_cdk.AuditTable,
    ]
    roles = {}
    for kind in kinds:
        made = kind(stack, f"The{kind.__name__}", encryption_key=key)
        let_be(made, "Outbox")
        for name in [one for one in dir(kind) if one.startswith("grant_") and one != "grant_due"]:
            role = f"{kind.__name__}{name.title().replace('_', '')}"
            getattr(made, name)(new_role(stack, role))
            roles[f"`{kind.__name__}.{name}`"] = role
    template = Template.from_stack(stack)
    return {grant: _split(grants(template, role)) for grant, role in roles.items()}


def _split(found: set[tuple[tuple[str, ...], str]]) -> tuple[set[str], set[str]]:
    actions = {action for several, _ in found for action in several}
    keys = {action for action in actions if action.startswith("kms:")}
    return actions - keys, keys


@pytest.mark.case(50)
def test_the_documented_actions_are_those_that_are_granted(
    allowed: dict[str, tuple[set[str], set[str]]],
) -> None:
    """Nobody has to guess: each grant stands in the README with exactly its actions, also those on
    a customer's key.

    Red when a grant changes and the README does not, or a new one is not documented.
    """
    assert documented() == allowed


@pytest.mark.case(50)
def test_a_reconciler_without_the_constructs_is_told_its_actions() -> None:
    """The page without the CDK gives it those of the reference service's reconciler, with those of
    every protected function.

    Red when a role gains or loses an action and the page does not.
    """
    page = text_of("layer/docs/guides/without-cdk.md")
    (actions,) = [row[1] for row in rows(page, "## Actions") if row[0] == "a reconciler"]
    granted = {
        action
        for several, arn in GRANTS["reconciler"]
        if arn.startswith(("Idempotency", "Outbox", "Payments", "Escalated"))
        for action in several
    }

    assert {*ACTION.findall(actions), *RESERVE_ACTIONS} == granted


ARN = re.compile(r"(\w+?)(Table|Queue|Bucket|Secret)(Stream)?Arn(.*)")


def row(function: str) -> str:
    """A role of the reference service as the README has it."""
    parts = []
    for actions, arn in GRANTS[function]:
        found = ARN.fullmatch(arn)
        assert found is not None
        name, kind, stream, below = found.groups()
        words = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
        where = f"{'stream of ' if stream else ''}{kind.lower()} {words}{below}"
        parts.append(f"{where}: {' '.join(f'`{action}`' for action in actions)}")
    return f"| `{function}` | {'; '.join(sorted(parts))} |"


@pytest.mark.case(50)
def test_the_documented_roles_are_those_of_the_reference_service() -> None:
    """Each function stands in the README with exactly what its role may do, and where.

    Red when a role gains or loses an action and the README does not.
    """
    # `test_grants` holds GRANTS against the templates.
    _, _, below = README.partition("### Roles of the reference service")
    table, _, _ = below.partition("`acknowledged.py`")
    documented = [line for line in table.splitlines() if line.startswith("| `")]

    assert documented == [row(function) for function in GRANTS]
