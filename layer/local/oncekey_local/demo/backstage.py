"""The inside of the running service: faults, kills, and the provider's and the queue's contents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from oncekey_local.demo.log import CHARGE, REFUND, Movement
from oncekey_local.store.client import Refused, StoreClient

if TYPE_CHECKING:
    import aiohttp

    from oncekey_local.dev_process import DevProcess

# A call that has not reached the provider by then counts as never sent.
_HELD_WITHIN_MS = 10_000
_RECONCILER = "reconciler"
_OUTBOX, _QUEUE = "payments-local-outbox", "payments"
_PROVIDER_CALM = {"hold": False, "fail": 0, "lose_answer": 0, "decline": 0, "delay_ms": 0}
_STORE_CALM = {"down": False, "lose_answers": 0, "delay_ms": 0}
# Faults that happen a given number of times.
_COUNTED = {"fail", "lose_answer", "decline", "lose_answers"}


class CannotPlay(Exception):  # noqa: N818 - a statement about the scene
    """A scene cannot go on; the message says why."""


class Backstage:
    """Access to the running service's provider, store and processes."""

    def __init__(self, dev: DevProcess, session: aiohttp.ClientSession) -> None:
        self._dev = dev
        self._session = session
        self._provider, self._store = dev.provider_url, dev.store_url
        self._store_client = StoreClient(session, self._store)

    async def provider(self, **faults: object) -> None:
        """Sets or ends faults of the provider. Ending a hold waits for the held calls."""
        await self._json("POST", f"{self._provider}/_faults", faults)

    async def store(self, **faults: object) -> None:
        """Sets or ends faults of the store."""
        await self._json("POST", f"{self._store}/_faults", faults)

    async def send_events(self, *, copies: int) -> int:
        """Makes the provider send its held events, each `copies` times, and hold later ones.

        It returns the number of accepted deliveries, after all of them.
        """
        url = f"{self._provider}/_webhooks"
        before = (await self._json("GET", url))["delivered"]
        sending = {"hold": False, "copies": copies, "newest_first": True}
        delivered = (await self._json("POST", url, sending))["delivered"]
        await self._json("POST", url, {"hold": True})
        return int(delivered) - int(before)

    async def call_reconciler(self) -> dict[str, Any]:
        """Calls the reconciler, as its schedule does, and returns its report."""
        try:
            run = await asyncio.to_thread(self._dev.call_now, _RECONCILER)
        except (RuntimeError, OSError) as error:
            raise CannotPlay(f"the reconciler cannot be called: {error}") from error
        if run["outcome"] != "result":
            raise CannotPlay(f"the reconciler's run ended with {run['outcome']}")
        numbers: dict[str, Any] = run["said"]
        return numbers

    async def wait_held(self) -> None:
        """Returns as soon as the provider holds a call."""
        wanted = {"held": 1, "timeout_ms": _HELD_WITHIN_MS}
        async with self._session.post(f"{self._provider}/_wait", json=wanted) as response:
            if response.status != 200:
                raise CannotPlay(f"no call reached the provider in {_HELD_WITHIN_MS // 1000} s")

    async def held(self) -> int:
        """How many calls the provider holds now."""
        return int((await self._json("GET", f"{self._provider}/_state"))["held"])

    async def failing(self) -> int:
        """How many calls the provider will still fail."""
        return int((await self._json("GET", f"{self._provider}/_faults"))["fail"])

    async def kill_busy(self, function: str) -> int:
        """Kills a process in the middle of a run of this function (SIGKILL); returns its id."""
        try:
            return await asyncio.to_thread(self._dev.kill_busy, function)
        except (RuntimeError, OSError) as error:
            raise CannotPlay(f"no process to kill: {error}") from error

    async def started(self, function: str) -> int:
        """How many processes of this function have started."""
        try:
            processes = await asyncio.to_thread(self._dev.processes)
        except (RuntimeError, OSError) as error:
            raise CannotPlay(f"nobody can say which processes run: {error}") from error
        return sum(each["function"] == function and each["started"] for each in processes)

    async def end_faults(self) -> tuple[str, ...]:
        """Ends all faults; returns those that never struck."""
        armed = await self._json("GET", f"{self._provider}/_faults")
        armed |= await self._json("GET", f"{self._store}/_faults")
        await self.provider(**_PROVIDER_CALM)
        await self.store(**_STORE_CALM)
        return tuple(name for name in sorted(_COUNTED) if armed.get(name))

    async def messages(self) -> int:
        """How many messages wait for a worker, or are being worked on."""
        try:
            # The order matters: a message leaves the outbox only after the queue has it.
            scan = {"TableName": _OUTBOX, "Select": "COUNT", "ConsistentRead": True}
            waiting = int((await self._store_client.dynamodb("Scan", scan))["Count"])
            queue = (await asyncio.to_thread(self._dev.queues))[_QUEUE]
        except (Refused, RuntimeError, OSError) as error:
            raise CannotPlay(f"nobody can say what is on its way: {error}") from error
        return waiting + queue["visible"] + queue["in_flight"] + queue["delayed"]

    async def provider_calls(self) -> int:
        """How many calls have reached the provider so far."""
        return int((await self._json("GET", f"{self._provider}/_state"))["calls"])

    async def movements(self) -> list[Movement]:
        """All that the provider has on record: charges, the oldest first, and then refunds."""
        charges = await self._listed("payment_intents")
        refunds = await self._listed("refunds")
        return [_movement(CHARGE, each, "payment_id") for each in charges] + [
            _movement(REFUND, each, "refund_id") for each in refunds
        ]

    async def _listed(self, what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = await self._json("GET", f"{self._provider}/v1/{what}?limit=100{after}")
            found += page["data"]
            if not page["has_more"]:
                return found[::-1]
            after = f"&starting_after={found[-1]['id']}"

    async def _json(self, method: str, url: str, body: object = None) -> dict[str, Any]:
        headers = {"Authorization": "Bearer sk_test_demo"}
        async with self._session.request(method, url, json=body, headers=headers) as response:
            answer: dict[str, Any] = await response.json()
            if response.status != 200:
                raise CannotPlay(f"{method} {url} was answered with {response.status}: {answer}")
            return answer


def _movement(kind: str, shown: dict[str, Any], subject: str) -> Movement:
    metadata = shown["metadata"]
    return Movement(
        kind=kind,
        id=shown["id"],
        operation_id=metadata.get("operation_id", ""),
        concerns=metadata.get(subject, ""),
        amount=shown["amount"],
        status=shown["status"],
    )
