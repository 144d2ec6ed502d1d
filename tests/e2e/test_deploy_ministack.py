"""Stage dev, deployed to ministack by the CDK's own command line, and used over HTTP.

ministack runs the functions, the API with its authorizer, the stream and the queue. What it does
otherwise than AWS (retries of streams, IAM, the template's Python, TTL) is asserted on the
templates, in tests/infra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local_deployment import scenes
from infra.local_deployment.report import Report
from infra.local_deployment.stories import MinistackDeployment, on_ministack

if TYPE_CHECKING:
    from collections.abc import Iterator

# A deployment takes about half a minute.
pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def deployment() -> Iterator[MinistackDeployment]:
    """The two stacks, deployed."""
    with on_ministack(Report(print)) as deployed:
        yield deployed


@pytest.fixture(scope="module")
def payment(deployment: MinistackDeployment) -> str:
    """The path of a payment that was sent three times and charged once."""
    return scenes.pay_once(deployment.api, deployment.provider.charges, scenes.wait_a_little)


def test_the_authorizer_refuses_wrong_tokens(deployment: MinistackDeployment) -> None:
    """The deployed API answers 401 to a token that is missing, forged, expired or for others."""
    scenes.refuse_wrong_tokens(deployment.http, deployment.issuer)


def test_a_payment_takes_effect_once(deployment: MinistackDeployment, payment: str) -> None:
    """A payment that is sent three times through the deployed API is relayed by the deployed
    stream, worked on by the deployed queue, charged once, and replayed.
    """
    assert deployment.api.get(payment).json()["status"] == "succeeded"


def test_an_unknown_is_settled(deployment: MinistackDeployment, payment: str) -> None:
    """A refund whose answer was lost is made once: a retry is told that nobody knows, and what the
    deployed schedule calls finds out, so that the next one gets the answer.
    """
    scenes.settle_an_unknown(deployment.api, deployment.provider, payment, deployment.reconcile)
