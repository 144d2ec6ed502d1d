"""The events that the provider sends, to a receiver that the test plays."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import stripe
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestServer

from oncekey_local.provider import webhooks
from oncekey_local.provider.server import create_application
from oncekey_local.provider.webhooks import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SECRET = "whsec_of_the_tests_0123456789"
CHARGE = {"amount": "1200", "currency": "eur", "customer": "cus_1", "confirm": "true"}
KEY = {"Authorization": "Bearer sk_test_local"}


@dataclass
class Wire:
    """The provider, and a receiver that answers with `statuses` first, and then with 200."""

    session: aiohttp.ClientSession
    url: str
    statuses: list[int] = field(default_factory=list)
    received: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        """Those of the events received, in their order."""
        return [json.loads(body)["type"] for _, body in self.received]

    @property
    def ids(self) -> list[str]:
        """The same of their ids."""
        return [json.loads(body)["id"] for _, body in self.received]

    async def post(self, path: str, **data: str) -> dict[str, Any]:
        """One call of the API."""
        async with self.session.post(self.url + path, data=data, headers=KEY) as answer:
            made: dict[str, Any] = await answer.json()
            return made

    async def control(self, **changes: object) -> dict[str, Any]:
        """Change how events are sent; without a hold all have been sent then."""
        async with self.session.post(f"{self.url}/_webhooks", json=changes) as answer:
            state: dict[str, Any] = await answer.json()
            return state


@asynccontextmanager
async def wired() -> AsyncIterator[Wire]:
    """A provider that sends its events to a receiver."""

    async def receive(request: web.BaseRequest) -> web.Response:
        wire.received.append((request.headers["Stripe-Signature"], await request.read()))
        return web.Response(status=wire.statuses.pop(0) if wire.statuses else 200)

    async with RawTestServer(receive) as receiver, aiohttp.ClientSession() as session:
        target = Target(url=str(receiver.make_url("/hook")), secret=SECRET)
        async with TestServer(create_application(target)) as server:
            wire = Wire(session, str(server.make_url("")).rstrip("/"))
            yield wire


def play(story: Callable[[Wire], Awaitable[None]]) -> None:
    """Run a story."""

    async def run() -> None:
        async with wired() as wire:
            await story(wire)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not taken is sent again at once, three times in all."""
    monkeypatch.setattr(webhooks, "_PAUSES_S", (0.0, 0.0))


def test_every_effect_is_an_event_that_stripes_sdk_takes() -> None:
    """Charging, declining and giving back are told in their order, signed as Stripe signs, with the
    object as it then stood.
    """

    async def story(wire: Wire) -> None:
        intent = await wire.post("/v1/payment_intents", **CHARGE)
        await wire.post("/v1/refunds", payment_intent=intent["id"], amount="300")
        declined = CHARGE | {"payment_method": "pm_card_chargeDeclined"}
        await wire.post("/v1/payment_intents", **declined)
        await wire.control()

        assert wire.types == [
            "payment_intent.created",
            "payment_intent.succeeded",
            "refund.created",
            "charge.refunded",
            "payment_intent.created",
            "payment_intent.payment_failed",
        ]
        for header, body in wire.received:
            event = stripe.Webhook.construct_event(body, header, SECRET)
            assert event.id.startswith("evt_")
        told = json.loads(wire.received[1][1])["data"]["object"]
        assert (told["id"], told["status"]) == (intent["id"], "succeeded")
        assert json.loads(wire.received[0][1])["data"]["object"]["status"] != "succeeded"

    play(story)


def test_events_are_held_back_and_come_twice_and_out_of_order_when_told_so() -> None:
    """While they are held nothing is sent; released, the newest comes first, each twice, and the
    answer comes when all are delivered.
    """

    async def story(wire: Wire) -> None:
        assert (await wire.control(hold=True))["waiting"] == 0
        await wire.post("/v1/payment_intents", **CHARGE)
        assert wire.received == []

        state = await wire.control(hold=False, copies=2, newest_first=True)

        succeeded, created = "payment_intent.succeeded", "payment_intent.created"
        assert wire.types == [succeeded, succeeded, created, created]
        assert len(set(wire.ids)) == 2
        assert (state["waiting"], state["delivered"], state["given_up"]) == (0, 4, 0)

    play(story)


def test_what_is_not_taken_is_sent_again_under_its_id_and_given_up_in_the_end() -> None:
    """An event that gets no 2xx comes again, before those behind it; there is an end to that."""

    async def story(wire: Wire) -> None:
        wire.statuses = [503, 302, 200, *[500] * 3]

        await wire.post("/v1/payment_intents", **CHARGE)
        state = await wire.control()

        assert wire.types == ["payment_intent.created"] * 3 + ["payment_intent.succeeded"] * 3
        assert len(set(wire.ids)) == 2
        assert (state["delivered"], state["given_up"]) == (1, 1)

    play(story)


def test_a_new_start_forgets_the_events_that_wait() -> None:
    """After a reset nothing of before is sent, and what happens then is."""

    async def story(wire: Wire) -> None:
        await wire.control(hold=True)
        await wire.post("/v1/payment_intents", **CHARGE)
        await wire.post("/_reset")
        await wire.post("/v1/payment_intents", amount="5", currency="eur")
        state = await wire.control()

        assert wire.types == ["payment_intent.created"]
        assert (state["hold"], state["delivered"]) == (False, 1)

    play(story)


def test_a_provider_that_stops_does_not_wait_for_its_events() -> None:
    """Events that wait, behind one that nobody answers, do not keep it alive."""

    async def story() -> None:
        arrived = asyncio.Event()

        async def never(_request: web.BaseRequest) -> web.Response:
            arrived.set()
            await asyncio.Event().wait()
            return web.Response()

        async with RawTestServer(never) as receiver, aiohttp.ClientSession() as session:
            target = Target(url=str(receiver.make_url("/hook")), secret=SECRET)
            async with TestServer(create_application(target)) as server:
                await session.post(server.make_url("/v1/payment_intents"), data=CHARGE, headers=KEY)
                await arrived.wait()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_events_may_be_held_from_the_start_and_after_every_reset() -> None:
    """A provider that was told to hold its events does so, and does again when it starts anew."""

    async def story() -> list[bool]:
        target = Target(url="http://nobody", secret=SECRET, is_held=True)
        async with (
            TestServer(create_application(target)) as server,
            aiohttp.ClientSession() as session,
        ):
            held = []
            for changes in ({}, {"hold": False}, None):
                path = "/_reset" if changes is None else "/_webhooks"
                await session.post(server.make_url(path), json=changes)
                async with session.get(server.make_url("/_webhooks")) as answer:
                    held.append((await answer.json())["hold"])
            return held

    assert asyncio.run(story()) == [True, False, True]


def test_without_an_address_there_are_no_events() -> None:
    """A provider that is told of nobody keeps nothing for anybody."""

    async def story() -> dict[str, Any]:
        async with (
            TestServer(create_application()) as server,
            aiohttp.ClientSession() as session,
        ):
            await session.post(server.make_url("/v1/payment_intents"), data=CHARGE, headers=KEY)
            async with session.get(server.make_url("/_webhooks")) as answer:
                state: dict[str, Any] = await answer.json()
                return state

    assert asyncio.run(story()) == {
        "hold": False,
        "copies": 1,
        "newest_first": False,
        "waiting": 0,
        "delivered": 0,
        "given_up": 0,
    }


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ([], "JSON object"),
        ({"colour": 1}, "colour"),
        ({"copies": 0}, "copies"),
        ({"copies": True}, "copies"),
        ({"hold": 1, "newest_first": "no"}, "newest_first"),
    ],
)
def test_a_manner_it_does_not_know_is_refused(body: object, named: str) -> None:
    """A wrong setting is refused with its name, and changes nothing."""

    async def story(wire: Wire) -> None:
        async with wire.session.post(f"{wire.url}/_webhooks", json=body) as answer:
            assert answer.status == 400
            assert named in (await answer.json())["error"]
        assert (await wire.control())["copies"] == 1

    play(story)
