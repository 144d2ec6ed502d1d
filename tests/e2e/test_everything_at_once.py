"""The running service under every fault at once: kills, outages, lost answers, a bad provider.

`make soak MINUTES=10` has it last for ten minutes, and `SOAK_SEED` repeats a run's order of faults.
What the machine does with it is another one each time.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.clock import SystemClock
from tests.support.dev_service import running
from tests.support.memory_of_processes import grown, memory_kb
from tests.support.misfortunes import Customers, Misfortunes, differences, unfinished
from tests.support.payments_client import Client
from tests.support.releases import PRESENT, Releases

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LASTS_S = 60 * float(os.environ.get("SOAK_MINUTES", "0.3"))
# First all is well for a while: what grows then, grows with the number of requests.
CALM_S = LASTS_S / 4
FAULTS_S = LASTS_S - CALM_S
SEED = int(os.environ.get("SOAK_SEED", SystemClock().now_ms() % 10**6))
CUSTOMERS = 6
# Long enough for a function that was killed at the last moment, its lease, and those behind it.
FINAL_WITHIN_S = 60
# What a process may grow: its caches fill, and the allocator keeps pages. A request kept by mistake
# is more than this. After fewer requests than these, what grows is what a start loads.
SLACK_KB, MOST_KB_EACH = 8_192, 1
LEAST_REQUESTS = 500


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    """An earlier release and the present one, which is deployed."""
    made = Releases(tmp_path)
    made.roll_to(PRESENT)
    return made


@pytest.fixture
def service(releases: Releases) -> Iterator[Client]:
    """The reference service with timeouts of eight seconds, and everything else as it is deployed:
    the queue's visibility timeout, six minutes, and the leases' margin. Only what asks the provider
    after a dead refund does so sooner than after a minute.
    """
    env = {
        **releases.environment,
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
    service: Client, releases: Releases, capsys: pytest.CaptureFixture[str]
) -> None:
    """Functions are killed, another release is rolled forward and back, store and queues are away
    for up to a second, answers are lost, the provider is slow and fails, while six clients pay and
    ask for money back, and send everything again. No effect happens twice, all answers to a key are
    equal, the provider's books are ours; within a minute after the last fault everything is final,
    and no message is among the dead letters. Before the faults, no process grows with the requests;
    a run of a few seconds has too few of them to tell.

    Red when a worker that was killed, or met an outage, leaves its messages to the queue's
    visibility timeout of six minutes, or when keys protect nothing.
    """
    misfortunes = Misfortunes(service, SEED, releases)
    customers = Customers(service, SEED, count=CUSTOMERS)
    with capsys.disabled():
        print(f"\nSOAK_SEED={SEED}: {CALM_S:g} s of calm, {FAULTS_S:g} s of faults", flush=True)  # noqa: T201 -- to repeat it

    with customers.at_work():
        misfortunes.stay_away(CALM_S / 3)
        before_kb, asked_before = memory_kb(service.dev), customers.told.requests
        misfortunes.stay_away(CALM_S * 2 / 3)
        growth = grown(before_kb, memory_kb(service.dev))
        asked = customers.told.requests - asked_before
        misfortunes.befall(FAULTS_S)
    last_fault_s = time.monotonic()
    customers.end()
    while (left := unfinished(service)) and time.monotonic() - last_fault_s < 10 * FINAL_WITHIN_S:
        pass
    took_s = time.monotonic() - last_fault_s

    with capsys.disabled():
        print(  # noqa: T201 -- what was survived, and how long it took
            f"{sum(misfortunes.happened.values())} faults {dict(misfortunes.happened)},"
            f" processes of releases {dict(releases.started())};"
            f" {customers.told.requests} requests, {len(customers.told.payments)} payments,"
            f" {len(customers.told.refunds)} refunds;"
            f" final {took_s:.1f} s after the last fault;"
            f" memory over {asked} calm requests, in KB: {growth}"
        )
    assert left == []
    assert differences(service, customers.told) == []
    assert took_s < FINAL_WITHIN_S
    if asked_before >= LEAST_REQUESTS:
        allowed_kb = SLACK_KB + asked * MOST_KB_EACH
        assert {name: kb for name, kb in growth.items() if kb > allowed_kb} == {}
