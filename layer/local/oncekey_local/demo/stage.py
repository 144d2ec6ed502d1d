"""The actions of a scene: sending requests as a client, and waiting for their results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from oncekey_local.demo.backstage import Backstage, CannotPlay
from oncekey_local.demo.log import DECLINED, SUCCEEDED, Exchange, Order, Recording
from oncekey_local.demo.narrator import SHORT_KEY
from oncekey_local.demo.words import euros
from oncekey_local.identifiers import new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey_local.demo.narrator import Narrator
    from oncekey_local.dev_process import DevProcess

# Longer than any answer takes, because the function is killed long before.
REQUEST_TIMEOUT_S = 15
# The time for the other answers while the provider holds the first call. The function of that call
# is killed soon after.
_OTHERS_ANSWERED_WITHIN_S = 3.5
# Longer than a cold start takes. Without the processes the scene is played all the same.
_STARTED_WITHIN_S = 20
# Longer than the time for a message whose worker was killed and whose second delivery was early.
_FINAL_WITHIN_S = 20
# Longer than the grace period after a dead request's lease.
_SETTLED_WITHIN_S = 3
_FINAL = {SUCCEEDED, DECLINED}
_LOOK_EVERY_S = 0.1


class Stage(Backstage):
    """The running service as its clients and its operators see it, and the log of the scene."""

    def __init__(self, dev: DevProcess, session: aiohttp.ClientSession, narrator: Narrator) -> None:
        super().__init__(dev, session)
        self.recording = Recording()
        self.narrator = narrator
        self._first: Exchange | None = None
        self._refunds: tuple[Order, Order] | None = None
        self._sent: set[asyncio.Task[Exchange]] = set()

    def order(self, amount: int, *, refund_of: str | None = None) -> Order:
        """A new order with an unused key."""
        return Order(key=new_id(), amount=amount, refund_of=refund_of)

    async def ask(self, order: Order, step: str, *, again: bool = False) -> Exchange:
        """Sends an order, and shows the request and its answer."""
        self._announce(order, "again " if again else "")
        exchange = await self.send(order, step)
        self.narrator.answers([exchange])
        return exchange

    def ask_at_once(self, order: Order, step: str, times: int) -> list[asyncio.Task[Exchange]]:
        """Sends an order several times at the same moment, without waiting for the answers."""
        self._announce(order, f"{times} x " if times > 1 else "")
        tasks = [asyncio.create_task(self.send(order, step)) for _ in range(times)]
        self._sent.update(tasks)
        return tasks

    async def ask_again(self, order: Order, step: str, times: int) -> None:
        """Sends an order several times, one after the other, and shows the answers together."""
        self._announce(order, f"again, {times} x ")
        self.narrator.answers([await self.send(order, step) for _ in range(times)])

    async def look(self, exchange: Exchange, tenant: str, step: str) -> None:
        """Requests, as `tenant`, the payment in an answer."""
        self._announce_look(exchange, "" if tenant == exchange.tenant else f"   by tenant {tenant}")
        seen = await self._look(exchange.payment_id or "none", tenant, step)
        self.recording.exchanges.append(seen)
        self.narrator.answers([seen])

    async def await_end(self, exchange: Exchange, step: str) -> None:
        """Requests an accepted payment until it is no longer pending, and shows the last answer.

        Without a payment in `exchange`, it does nothing.
        """
        if exchange.payment_id is None:
            return
        self._announce_look(exchange, "   until it is pending no more")
        seen = await self._until_final(exchange, step)
        self.recording.exchanges.append(seen)
        self.narrator.answers([seen])

    async def send(self, order: Order, step: str) -> Exchange:
        """Sends an order without showing it."""
        body: dict[str, object] = {"amount": order.amount}
        if order.refund_of is None:
            path, body = "/payments", body | {"customer_id": "cus_demo", "currency": "eur"}
        else:
            path, body = "/refunds", body | {"payment_id": order.refund_of}
        exchange = await self._exchange("POST", path, order.tenant, step, order=order, body=body)
        self.recording.exchanges.append(exchange)
        return exchange

    async def start_refunds(self, processes: int) -> None:
        """Has the function of refunds run in so many processes, by requests that it refuses.

        On a slow machine their start takes longer than the provider can hold a call.
        """
        refused = [
            self._exchange("POST", "/refunds", "acme", "start", body={}) for _ in range(processes)
        ]
        await asyncio.gather(*refused)

        async def have_started() -> bool:
            return await self.started("refunds") >= processes

        await self._wait(have_started, _STARTED_WITHIN_S)

    def keep(self, first: Exchange) -> None:
        """Keeps an exchange for later scenes."""
        self._first = first

    def recall(self) -> tuple[Exchange, Order]:
        """The exchange that was kept, and its order. This scene's log then contains it."""
        if self._first is None or self._first.order is None:
            raise CannotPlay("the first scene, which it goes back to, was not played")
        self.recording.earlier.append(self._first)
        return self._first, self._first.order

    def refund(self, amount: int) -> Order:
        """A new order to refund a part of the first scene's payment."""
        first = self._first
        if first is None or first.payment_id is None:
            raise CannotPlay("the first scene, whose payment it gives back, was not played")
        return self.order(amount, refund_of=first.payment_id)

    def keep_refunds(self, in_vain: Order, arriving: Order) -> None:
        """Keeps two refunds with an unknown outcome for later scenes."""
        self._refunds = (in_vain, arriving)

    def recall_refunds(self) -> tuple[Order, Order]:
        """The two refunds: one that the provider has not made, and one that it has made."""
        if self._refunds is None:
            raise CannotPlay("the scene of the refunds that die, which it goes back to, failed")
        return self._refunds

    async def wait_called(self) -> None:
        """Returns as soon as a fault of the provider has affected a call."""

        async def has_struck() -> bool:
            return await self.failing() == 0

        if not await self._wait(has_struck, _FINAL_WITHIN_S):
            raise CannotPlay(f"no call reached the provider in {_FINAL_WITHIN_S} s")

    async def reconcile(self) -> tuple[int, int]:
        """Calls the reconciler until it has settled something or its time is over.

        It returns how many operations it asked about, and how many it settled.
        """
        asked = settled = 0

        async def has_settled() -> bool:
            nonlocal asked, settled
            numbers = await self.call_reconciler()
            asked, settled = asked + int(numbers["asked"]), int(numbers["settled"])
            return settled > 0

        await self._wait(has_settled, _SETTLED_WITHIN_S)
        return asked, settled

    async def wait_answered_or_held(self, tasks: list[asyncio.Task[Exchange]]) -> list[Exchange]:
        """Returns the answers when the provider holds all other requests, or after a while.

        It cannot wait longer, because the held request runs out of time.
        """

        async def is_so() -> bool:
            return await self.held() >= sum(not task.done() for task in tasks)

        await self._wait(is_so, _OTHERS_ANSWERED_WITHIN_S)
        return [task.result() for task in tasks if task.done()]

    async def calm(self) -> tuple[str, ...]:
        """Ends all faults and all open requests, and returns the faults that never happened."""
        never_struck = await self.end_faults()
        if self._sent:
            await asyncio.wait(self._sent)
        self._sent.clear()
        return never_struck

    async def come_to_rest(self) -> None:
        """Returns when no payment is pending and no message is waiting, or after a while.

        A payment that stays pending is logged as pending.
        """
        for exchange in tuple(self.recording.exchanges):
            if exchange.status == 202:
                await self._until_final(exchange)

        await self.messages_done()

    async def messages_done(self) -> None:
        """Returns when no message is waiting."""

        async def is_at_rest() -> bool:
            return await self.messages() == 0

        if not await self._wait(is_at_rest, _FINAL_WITHIN_S):
            raise CannotPlay(f"messages are on their way for longer than {_FINAL_WITHIN_S} s")

    async def _until_final(self, exchange: Exchange, step: str = "") -> Exchange:
        payment_id = exchange.payment_id or "none"
        seen = exchange

        async def is_final() -> bool:
            nonlocal seen
            seen = await self._look(payment_id, exchange.tenant, step)
            self.recording.states[payment_id] = seen.state or str(seen.status)
            return seen.state in _FINAL

        await self._wait(is_final, _FINAL_WITHIN_S)
        return seen

    async def _look(self, payment_id: str, tenant: str, step: str = "") -> Exchange:
        return await self._exchange("GET", f"/payments/{payment_id}", tenant, step)

    async def _wait(self, condition: Callable[[], Awaitable[bool]], within_s: float) -> bool:
        end = asyncio.get_running_loop().time() + within_s
        while not await condition():
            if asyncio.get_running_loop().time() > end:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True

    def _announce(self, order: Order, how: str) -> None:
        whose = "" if order.tenant == "acme" else f"   by tenant {order.tenant}"
        path = "/payments" if order.refund_of is None else "/refunds"
        self.narrator.request(
            f"{how}POST {path}   {euros(order.amount)}   key {order.key[:SHORT_KEY]}…{whose}"
        )

    def _announce_look(self, exchange: Exchange, how: str) -> None:
        self.narrator.request(f"GET {f'/payments/{exchange.payment_id}'[:22]}…{how}")

    async def _exchange(
        self,
        method: str,
        path: str,
        tenant: str,
        step: str,
        *,
        order: Order | None = None,
        body: dict[str, object] | None = None,
    ) -> Exchange:
        headers = {"Authorization": f"Bearer {self._dev.token(tenant)}"}
        if order is not None:
            headers["Idempotency-Key"] = order.key
        status, received, content = 0, dict[str, str](), b""
        try:
            async with self._session.request(
                method, f"{self._dev.url}{path}", headers=headers, json=body
            ) as response:
                content = await response.read()
                received = {name.lower(): value for name, value in response.headers.items()}
                status = response.status
        except (aiohttp.ClientError, TimeoutError):
            pass  # status 0 means that there was no answer
        return Exchange(
            step=step, tenant=tenant, order=order, status=status, headers=received, body=content
        )
