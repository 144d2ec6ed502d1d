"""What a scene can do: send requests as a client, and make things go wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp

from oncekey_local.demo.log import Charge, Exchange, Order, Recording
from oncekey_local.demo.narrator import SHORT_KEY
from oncekey_local.demo.promises import euros
from oncekey_local.identifiers import new_id

if TYPE_CHECKING:
    from oncekey_local.demo.narrator import Narrator
    from oncekey_local.dev_process import DevProcess

FUNCTION = "payments"
# Longer than any answer takes: the function is killed long before.
REQUEST_TIMEOUT_S = 15
# A call that has not reached the provider after this long never will.
_HELD_WITHIN_MS = 10_000
# While the provider holds the first charge; its function is killed not much later.
_OTHERS_ANSWERED_WITHIN_S = 3.5

_PROVIDER_CALM = {"hold": False, "fail": 0, "lose_answer": 0, "decline": 0, "delay_ms": 0}
_STORE_CALM = {"down": False, "lose_answers": 0, "delay_ms": 0}
# Faults that are used up as they strike.
_COUNTED = {"fail", "lose_answer", "decline", "lose_answers"}


class CannotPlay(Exception):  # noqa: N818 - it says what happened
    """A scene cannot go on; the message says why."""


class Stage:
    """The running service with its provider and store, and the record of what is seen."""

    def __init__(self, dev: DevProcess, session: aiohttp.ClientSession, narrator: Narrator) -> None:
        self.recording = Recording()
        self.narrator = narrator
        self._dev = dev
        self._session = session
        self._url, self._provider, self._store = dev.url, dev.provider_url, dev.store_url
        self._first: Exchange | None = None
        self._sent: set[asyncio.Task[Exchange]] = set()

    def order(self, amount: int) -> Order:
        """A new order, under a key that nobody has used."""
        return Order(key=new_id(), amount=amount)

    async def pay(self, order: Order, step: str, *, again: bool = False) -> Exchange:
        """Sends an order and tells the request and its answer."""
        self._announce(order, "again " if again else "")
        exchange = await self.send(order, step)
        self.narrator.answers([exchange])
        return exchange

    def pay_at_once(self, order: Order, step: str, times: int) -> list[asyncio.Task[Exchange]]:
        """Sends an order several times at the same moment, without waiting for the answers."""
        self._announce(order, f"{times} x " if times > 1 else "")
        tasks = [asyncio.create_task(self.send(order, step)) for _ in range(times)]
        self._sent.update(tasks)
        return tasks

    async def pay_again(self, order: Order, step: str, times: int) -> None:
        """Sends an order several times, one after the other, and tells them together."""
        self._announce(order, f"again, {times} x ")
        self.narrator.answers([await self.send(order, step) for _ in range(times)])

    async def look(self, exchange: Exchange, tenant: str, step: str) -> None:
        """Asks, as `tenant`, for the payment that an answer has shown."""
        path = f"/payments/{exchange.payment_id or 'none'}"
        self.narrator.request(f"GET {path[:22]}…   by tenant {tenant}")
        seen = await self._exchange("GET", path, step=step, tenant=tenant)
        self.narrator.answers([seen])

    async def send(self, order: Order, step: str) -> Exchange:
        """Sends an order in silence."""
        return await self._exchange(
            "POST", "/payments", step=step, tenant=order.tenant, order=order
        )

    def keep(self, first: Exchange) -> None:
        """Keeps an exchange for the scenes to come."""
        self._first = first

    def recall(self) -> tuple[Exchange, Order]:
        """The exchange that was kept, and its order; it becomes part of this scene's log."""
        if self._first is None or self._first.order is None:
            raise CannotPlay("the first scene, which it goes back to, was not played")
        self.recording.earlier.append(self._first)
        return self._first, self._first.order

    async def provider(self, **faults: object) -> None:
        """Arms or ends faults of the provider; ending a hold returns when all it held is done."""
        await self._json("POST", f"{self._provider}/_faults", faults)

    async def store(self, **faults: object) -> None:
        """Arms or ends faults of the store."""
        await self._json("POST", f"{self._store}/_faults", faults)

    async def wait_held(self) -> None:
        """Returns as soon as the provider holds a charge."""
        wanted = {"held": 1, "timeout_ms": _HELD_WITHIN_MS}
        async with self._session.post(f"{self._provider}/_wait", json=wanted) as response:
            if response.status != 200:
                raise CannotPlay(f"no charge reached the provider in {_HELD_WITHIN_MS // 1000} s")

    async def wait_answered_or_held(self, tasks: list[asyncio.Task[Exchange]]) -> list[Exchange]:
        """Returns the answers given, when all the others are held by the provider.

        Or after a while, because whoever is held runs out of time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + _OTHERS_ANSWERED_WITHIN_S
        while loop.time() < end:
            held = int((await self._json("GET", f"{self._provider}/_state"))["held"])
            waiting = [task for task in tasks if not task.done()]
            if held >= len(waiting):
                break
            await asyncio.wait(waiting, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
        return [task.result() for task in tasks if task.done()]

    async def kill_busy(self) -> int:
        """Kills a process in the middle of a request (SIGKILL); returns its id."""
        try:
            return await asyncio.to_thread(self._dev.kill_busy, FUNCTION)
        except (RuntimeError, OSError) as error:
            raise CannotPlay(f"no process to kill: {error}") from error

    async def calm(self) -> tuple[str, ...]:
        """Ends all faults and all requests under way; returns the faults that never struck."""
        armed = await self._json("GET", f"{self._provider}/_faults")
        armed |= await self._json("GET", f"{self._store}/_faults")
        await self.provider(**_PROVIDER_CALM)
        await self.store(**_STORE_CALM)
        if self._sent:
            await asyncio.wait(self._sent)
        self._sent.clear()
        return tuple(name for name in sorted(_COUNTED) if armed.get(name))

    async def provider_calls(self) -> int:
        """How many calls have reached the provider so far."""
        return int((await self._json("GET", f"{self._provider}/_state"))["calls"])

    async def charges(self) -> list[Charge]:
        """All charges that the provider knows, the oldest first."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            url = f"{self._provider}/v1/payment_intents?limit=100{after}"
            page = await self._json("GET", url)
            found += page["data"]
            if not page["has_more"]:
                return [_charge(intent) for intent in reversed(found)]
            after = f"&starting_after={found[-1]['id']}"

    def _announce(self, order: Order, how: str) -> None:
        whose = "" if order.tenant == "acme" else f"   by tenant {order.tenant}"
        self.narrator.request(
            f"{how}POST /payments   {euros(order.amount)}   key {order.key[:SHORT_KEY]}…{whose}"
        )

    async def _exchange(
        self, method: str, path: str, *, step: str, tenant: str, order: Order | None = None
    ) -> Exchange:
        headers = {"Authorization": f"Bearer {self._dev.token(tenant)}"}
        body: dict[str, object] | None = None
        if order is not None:
            headers["Idempotency-Key"] = order.key
            body = {"customer_id": "cus_demo", "amount": order.amount, "currency": "eur"}
        status, received, content = 0, dict[str, str](), b""
        try:
            async with self._session.request(
                method, f"{self._url}{path}", headers=headers, json=body
            ) as response:
                content = await response.read()
                received = {name.lower(): value for name, value in response.headers.items()}
                status = response.status
        except (aiohttp.ClientError, TimeoutError):
            pass  # status 0 says so
        exchange = Exchange(
            step=step, tenant=tenant, order=order, status=status, headers=received, body=content
        )
        self.recording.exchanges.append(exchange)
        return exchange

    async def _json(self, method: str, url: str, body: object = None) -> dict[str, Any]:
        headers = {"Authorization": "Bearer sk_test_demo"}
        async with self._session.request(method, url, json=body, headers=headers) as response:
            answer: dict[str, Any] = await response.json()
            if response.status != 200:
                raise CannotPlay(f"{method} {url} was answered with {response.status}: {answer}")
            return answer


def _charge(intent: dict[str, Any]) -> Charge:
    return Charge(
        id=intent["id"],
        operation_id=intent["metadata"].get("operation_id", ""),
        payment_id=intent["metadata"].get("payment_id", ""),
        amount=intent["amount"],
        status=intent["status"],
    )
