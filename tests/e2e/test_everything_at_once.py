"""The running service under every fault at once: kills, outages, lost answers, a bad provider.

`CHAOS_S=40` has the faults last for forty seconds (`make chaos`), `CHAOS_SEED` repeats a run's
order of faults. What the machine does with it is another one each time.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.clock import SystemClock
from tests.support.dev_service import running
from tests.support.misfortunes import Customers, Misfortunes, differences, unfinished
from tests.support.payments_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTS_S = float(os.environ.get("CHAOS_S", "15"))
SEED = int(os.environ.get("CHAOS_SEED", SystemClock().now_ms() % 10**6))
CUSTOMERS = 6
# Long enough for a function that was killed at the last moment, its lease, and those behind it.
FINAL_WITHIN_S = 60


@pytest.fixture
def service() -> Iterator[Client]:
    """The reference service with timeouts of eight seconds, and everything else as it is deployed:
    the queue's visibility timeout, six minutes, and the leases' margin. Only what asks the provider
    after a dead refund does so sooner than after a minute.
    """
    env = {
        "ONCEKEY_RECONCILE_GRACE_MS": "3000",
        "ONCEKEY_RECONCILE_FIRST_DELAY_MS": "1000",
        "ONCEKEY_RECONCILE_LONGEST_DELAY_MS": "5000",
        "ONCEKEY_RESOLVER_TIMEOUT_MS": "3000",
    }
    options: dict[str, Any] = {"timeout_s": 8, "schedule_s": 3, "webhooks": "send"}
    with running("infra.service:SERVICE", env=env, **options) as dev:
        yield Client(dev)


@pytest.mark.proof
@pytest.mark.fault("K4.5")
@pytest.mark.fault("K4.8")
def test_under_all_faults_at_once_nothing_happens_twice_and_all_is_final_within_a_minute(
    service: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Functions are killed, the store is away for up to a second, answers are lost, the provider is
    slow and fails, while six clients pay and ask for money back, and send everything again. No
    effect happens twice, all answers to a key are equal, the provider's books are ours; within a
    minute after the last fault everything is final, and no message is among the dead letters.

    Red when a worker that was killed, or met an outage, leaves its messages to the queue's
    visibility timeout of six minutes, or when keys protect nothing.
    """
    misfortunes, customers = Misfortunes(service, SEED), Customers(service, SEED, count=CUSTOMERS)

    with customers.at_work():
        misfortunes.befall(FAULTS_S)
    last_fault_s = time.monotonic()
    customers.end()
    while (left := unfinished(service)) and time.monotonic() - last_fault_s < 10 * FINAL_WITHIN_S:
        pass
    took_s = time.monotonic() - last_fault_s

    with capsys.disabled():
        print(  # noqa: T201 -- the seed, and how long it took
            f"\nseed {SEED}: {sum(misfortunes.happened.values())} faults in {FAULTS_S:g} s"
            f" {dict(misfortunes.happened)}, {customers.told.requests} requests,"
            f" {len(customers.told.payments)} payments, {len(customers.told.refunds)} refunds;"
            f" final {took_s:.1f} s after the last fault"
        )
    assert left == []
    assert differences(service, customers.told) == []
    assert took_s < FINAL_WITHIN_S
