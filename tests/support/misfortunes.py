"""Everything that can happen to the running service at once, in an order that a seed gives."""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.payments_client import BODY, Client, new_key
from tests.support.provider import sdk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.dev_service import Answer
    from tests.support.releases import Releases

# The service answers "not now" by these, whoever of it says so.
_NOT_NOW = {"request-in-progress", "outcome-unknown", "store-unavailable", "not-executed"}
_LONGEST_OUTAGE_S = 1.0
_QUIET_QUEUE = ("visible", "in_flight", "delayed", "dead_letters")


class Misfortunes:
    """Faults of the service.

    Processes of all functions are killed, idle or not; store and queues are away for up to a
    second, or slow; their answers and the provider's are lost; the provider is slow, and fails.
    With `releases`, another release is rolled out from time to time: a process that starts, after a
    kill for example, is of that.
    """

    def __init__(self, client: Client, seed: int, releases: Releases | None = None) -> None:
        self.happened: Counter[str] = Counter()
        self._client = client
        self._releases = releases
        self._random = random.Random(seed)  # noqa: S311 -- no secret
        self._over = threading.Event()

    def stay_away(self, duration_s: float) -> None:
        """Nothing happens for so long."""
        self._wait(duration_s)

    def befall(self, duration_s: float) -> None:
        """Go on for so long; when it returns nothing is wrong any more."""
        end = time.monotonic() + duration_s
        strikes = [
            ("kill", self._kill),
            ("kill", self._kill),
            ("kill", self._kill),
            ("outage", self._outage),
            ("store is slow", self._slow_store),
            ("store loses answers", self._lose_answers),
            ("provider", self._provider),
        ]
        if self._releases is not None:
            strikes.append(("other release", self._releases.roll))
        while time.monotonic() < end:
            name, strike = self._random.choice(strikes)
            strike()
            self.happened[name] += 1
            self._wait(self._random.uniform(0.05, 0.5))
        self._client.set_store_faults(down=False, lose_answers=0, delay_ms=0)
        self._client.provider.disarm()

    def _kill(self) -> None:
        pids = self._client.dev.pids(role="function")
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(sorted(pids)), signal.SIGKILL)

    def _outage(self) -> None:
        self._client.set_store_faults(down=True)
        self._wait(self._random.uniform(0.1, _LONGEST_OUTAGE_S))
        self._client.set_store_faults(down=False)

    def _slow_store(self) -> None:
        self._client.set_store_faults(delay_ms=self._random.randint(50, 500))
        self._wait(self._random.uniform(0.1, _LONGEST_OUTAGE_S))
        self._client.set_store_faults(delay_ms=0)

    def _lose_answers(self) -> None:
        self._client.set_store_faults(lose_answers=self._random.randint(1, 3))

    def _provider(self) -> None:
        faults: list[dict[str, int | bool]] = [
            {"delay_ms": self._random.randint(0, 1500)},
            {"delay_ms": 0},
            {"fail": self._random.randint(1, 3)},
            {"lose_answer": self._random.randint(1, 3)},
        ]
        self._client.provider.arm(**self._random.choice(faults))

    def _wait(self, duration_s: float) -> None:
        self._over.wait(duration_s)


@dataclass
class Told:
    """What the clients were told, by key; each of them is an answer that no retry may change."""

    answers: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    payments: dict[str, Answer] = field(default_factory=dict)
    refunds: dict[str, Answer] = field(default_factory=dict)
    requests: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Customers:
    """Clients that pay, ask for money back, and send everything again until they have an answer.

    Once they have it, they send it once or twice more. Two of them share each key.
    """

    def __init__(self, client: Client, seed: int, *, count: int) -> None:
        self.told = Told()
        self._client = client
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._live, args=(random.Random(seed + number), number))  # noqa: S311 -- no secret
            for number in range(count)
        ]
        self._failed: list[BaseException] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """They begin new requests as long as the block lasts; then they end those they began."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._closing.set()

    def end(self) -> None:
        """Return once each has the answers to everything that it has sent."""
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]

    def _live(self, chance: random.Random, number: int) -> None:
        try:
            tenant = self._client.of(f"tenant-{number % 3}")
            while not self._closing.is_set():
                self._pay(tenant, chance)
                self._closing.wait(chance.uniform(0, 0.3))
        except BaseException as error:  # noqa: BLE001 -- raised where it is waited for
            self._failed.append(error)

    def _pay(self, tenant: Client, chance: random.Random) -> None:
        amount = chance.randint(100, 9_999)
        accepted = self._everybody(tenant.at("/payments", {**BODY, "amount": amount}), chance)
        assert accepted.status == 202, accepted
        payment_id = accepted.json()["payment_id"]
        with self.told.lock:
            self.told.payments[payment_id] = accepted
        if chance.random() < 0.5:
            return
        shown = self._shown(tenant, accepted.headers["location"], chance)
        if shown["status"] != "succeeded":
            return
        refund = tenant.at("/refunds", {"payment_id": payment_id, "amount": 1 + amount // 2})
        answer = self._everybody(refund, chance)
        assert answer.status == 201, answer
        with self.told.lock:
            self.told.refunds[answer.json()["refund_id"]] = answer

    def _everybody(self, client: Client, chance: random.Random) -> Answer:
        """One request, sent by two at once, and again when it is answered."""
        key = new_key()
        answers: list[Answer] = []
        other = threading.Thread(
            target=lambda: answers.append(self._until_answered(client, key, random.Random(key)))  # noqa: S311 -- no secret
        )
        other.start()
        answer = self._until_answered(client, key, chance)
        other.join()
        answers += [self._until_answered(client, key, chance) for _ in range(chance.randint(0, 2))]
        assert answers
        return answer

    def _until_answered(self, client: Client, key: str, chance: random.Random) -> Answer:
        while True:
            answer = self._asked(client, key)
            if answer is not None and not is_not_now(answer):
                with self.told.lock:
                    self.told.answers[key].append((answer.status, answer.body))
                return answer
            threading.Event().wait(chance.uniform(0.05, 0.5))

    def _asked(self, client: Client, key: str) -> Answer | None:
        with self.told.lock:
            self.told.requests += 1
        try:
            return client.ask(key)
        except (OSError, http.client.HTTPException):
            return None

    def _shown(self, tenant: Client, location: str, chance: random.Random) -> dict[str, Any]:
        while True:
            with suppress(OSError, http.client.HTTPException):
                answer = tenant.show(location)
                if answer.status == 200 and answer.json()["status"] != "pending":
                    shown: dict[str, Any] = answer.json()
                    return shown
            threading.Event().wait(chance.uniform(0.1, 0.5))


def is_not_now(answer: Answer) -> bool:
    """Whether a client sends the request again later, with the same key."""
    if answer.status >= 500 or answer.status == 429:
        return True
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return is_problem and answer.json()["type"].rpartition(":")[2] in _NOT_NOW


def unfinished(client: Client) -> list[str]:
    """What is still under way, in words; nothing once everything is final."""
    found = [
        f"payment {row['payment_id']['S']} is pending"
        for row in client.rows("payments")
        if row["status"]["S"] == "pending"
    ]
    found += [
        f"{record['operation']['S']} {record['operation_id']['S']} is {record['status']['S']}"
        for record in client.records()
        if record.get("status", {"S": "COMPLETED"})["S"] != "COMPLETED"
    ]
    found += [f"message {row['id']['S']} is in the outbox" for row in client.rows("outbox")]
    for name, counts in client.dev.queues().items():
        found += [f"{counts[what]} {what} in {name}" for what in _QUIET_QUEUE if counts[what]]
    return found


def differences(client: Client, told: Told) -> list[str]:
    """Where what clients were told, our tables and the provider's books do not agree."""
    with sdk(client.provider.url) as provider:
        intents: list[Any] = list(
            provider.v1.payment_intents.list({"limit": 100}).auto_paging_iter()
        )
        refunds: list[Any] = list(provider.v1.refunds.list({"limit": 100}).auto_paging_iter())
    charged = Counter(each.metadata["payment_id"] for each in intents)
    returned = Counter(each.metadata["refund_id"] for each in refunds)
    found = [
        f"{kind} {each} was made {count} times"
        for kind, counted in (("charge of", charged), ("refund", returned))
        for each, count in counted.items()
        if count != 1
    ]
    found += [
        f"key {key} was answered {len(set(answers))} ways"
        for key, answers in told.answers.items()
        if len(set(answers)) != 1
    ]
    their_charges = {(each.metadata["payment_id"], each.id, each.amount) for each in intents}
    our_charges = {
        (row["payment_id"]["S"], row["provider_id"]["S"], int(row["amount"]["N"]))
        for row in client.rows("payments")
        if "provider_id" in row
    }
    their_refunds = {(each.metadata["refund_id"], each.id, each.amount) for each in refunds}
    our_refunds = {
        (row["refund_id"]["S"], row["provider_id"]["S"], int(row["amount"]["N"]))
        for row in client.rows("refunds")
    }
    found += [f"charge {each} is on one side" for each in sorted(their_charges ^ our_charges)]
    found += [f"refund {each} is on one side" for each in sorted(their_refunds ^ our_refunds)]
    missing = set(told.payments) - set(charged)
    found += [f"payment {each} was accepted and never charged" for each in sorted(missing)]
    forgotten = set(told.refunds) - set(returned)
    return found + [f"refund {each} was answered and never made" for each in sorted(forgotten)]
