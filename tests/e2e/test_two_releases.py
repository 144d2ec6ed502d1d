"""A rolling deployment: two releases of the layer at work on one table, over real HTTP."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.dev_service import running
from tests.support.misfortunes import is_not_now
from tests.support.payments_client import Client, new_key
from tests.support.releases import EARLIER, PRESENT, Releases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.dev_service import Answer

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """An earlier release and the present one."""
    return Releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="module")
def service(releases: Releases) -> Iterator[Client]:
    """The reference service with leases of about eight seconds."""
    env = {**releases.environment, "ONCEKEY_LEASE_MARGIN_MS": "300"}
    quick: dict[str, Any] = {"timeout_s": 8, "visibility_timeout_s": 9}
    with running("infra.service:SERVICE", env=env, **quick) as dev:
        yield Client(dev)


def deploy(release: str, releases: Releases, service: Client) -> None:
    """From now on each function is of this release; what an older process has begun is killed."""
    releases.roll_to(release)
    for pid in service.dev.pids(role="function"):
        os.kill(pid, signal.SIGKILL)


def answered(client: Client, key: str) -> Answer:
    """The answer to one request, sent again while a process was killed or has not ended."""
    while is_not_now(answer := client.ask(key)):
        pass
    return answer


@pytest.mark.parametrize(("first", "second"), [(EARLIER, PRESENT), (PRESENT, EARLIER)])
def test_what_one_release_has_begun_another_ends_and_replays(
    service: Client, releases: Releases, first: str, second: str
) -> None:
    """A payment is accepted by one release, and its worker killed while it charges. The other
    release, newer or older, goes on with record, steps and message, charges once, and replays the
    answers of the first, which replays those of the other.

    Red when a release cannot read a record, a step's result or a message of the other.
    """
    deploy(first, releases, service)
    before, key = service.provider.counts(), new_key()
    service.provider.arm(hold=True)
    accepted = answered(service, key)
    service.provider.wait_held(1)
    deploy(second, releases, service)
    service.provider.arm(hold=False)
    payment = service.ended(accepted)
    refunds = service.at("/refunds", {"payment_id": payment["payment_id"], "amount": 1})
    refund_key = new_key()
    refund = answered(refunds, refund_key)
    replay = answered(service, key)
    deploy(first, releases, service)
    refund_replay = answered(refunds, refund_key)

    assert (accepted.status, payment["status"], refund.status) == (202, "succeeded", 201)
    assert (replay.status, replay.body) == (202, accepted.body)
    assert (refund_replay.status, refund_replay.body) == (201, refund.body)
    assert [each.headers["idempotent-replayed"] for each in (replay, refund_replay)] == ["true"] * 2
    since = service.provider.since(before)
    assert (since["charges"], since["refunds"]) == (1, 1)
    assert set(releases.started()) == {EARLIER, PRESENT}
