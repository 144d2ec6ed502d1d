"""The service that the tests of several files use: its start takes longer than most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import REFERENCE_SERVICE, running
from tests.support.payments_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def running_service() -> Iterator[Client]:
    """The reference service with a timeout of three seconds, which calls nothing on a schedule.

    Its leases last a little longer, and a message whose worker was killed comes again when they are
    over. `sharing` has the files that use it.
    """
    with running(
        REFERENCE_SERVICE,
        env={"ONCEKEY_LEASE_MARGIN_MS": "300", "ONCEKEY_RECONCILE_GRACE_MS": "200"},
        timeout_s=3,
        visibility_timeout_s=4,
        schedule_s="off",
    ) as dev:
        yield Client(dev)


@pytest.fixture(scope="module")
def shared(running_service: Client) -> Client:
    """The same: no message is on its way, the provider works, knows nothing and holds its events.

    Its tables have what the files before have left, as those of any service.
    """
    # A test that failed may have left them.
    running_service.set_store_faults(down=False, lose_answers=0, delay_ms=0)
    running_service.provider.disarm()
    running_service.provider.webhooks(hold=True, copies=1, newest_first=False)
    running_service.provider.reset()
    running_service.quiet()
    return running_service
