"""The play of each scene: its requests and faults."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey_local.demo.stage import Stage

# Short, so that a dead run's lease (its function's deadline and a margin) ends soon.
TIMEOUT_S = 5
LEASE_MARGIN_MS = 500
# The length of a lease and a little more.
_LEASE_S = TIMEOUT_S + LEASE_MARGIN_MS / 1000 + 0.2
# A message is delivered again after this time. It is longer than its last worker's lease, so that
# the next worker need not postpone it.
VISIBILITY_TIMEOUT_S = 6
# Longer than the timeout of any function.
_LATE_MS = 10_000
_WORKER, _REFUNDS = "outbox-worker", "refunds"


async def first_call(stage: Stage) -> None:
    """A key of its own, used for the first time."""
    first = await stage.ask(stage.order(6000), "first")
    stage.keep(first)
    await stage.await_end(first, "end")


async def replay(stage: Stage) -> None:
    """The first scene's order again."""
    _, order = stage.recall()
    await stage.ask(order, "retry", again=True)


async def five_at_once(stage: Stage) -> None:
    """One refund in five requests side by side, then the retries of those refused."""
    order = stage.refund(300)
    await stage.start_refunds(5)
    await stage.provider(hold=True)
    racing = stage.ask_at_once(order, "race", 5)
    await stage.wait_held()
    stage.narrator.event("the refund of the first has reached the provider, which takes its time")
    early = await stage.wait_answered_or_held(racing)
    stage.narrator.answers(early)
    stage.narrator.event("now the provider answers")
    await stage.provider(hold=False)
    everything = [await task for task in racing]
    stage.narrator.answers([each for each in everything if each not in early])
    await stage.ask_again(order, "retry", 4)


async def another_body(stage: Stage) -> None:
    """The first scene's key with another amount."""
    _, order = stage.recall()
    await stage.ask(replace(order, amount=1400), "misuse")


async def another_tenant(stage: Stage) -> None:
    """The first scene's key from another tenant, and a look at each other's payments."""
    first, order = stage.recall()
    other = await stage.ask(replace(order, amount=1500, tenant="globex"), "other")
    await stage.await_end(other, "own")
    await stage.look(other, "acme", "foreign")
    await stage.look(first, "globex", "foreign")


async def worker_killed(stage: Stage) -> None:
    """The worker killed while its charge is held; the queue delivers the message again."""
    order = stage.order(1600)
    await stage.provider(hold=True)
    accepted = await stage.ask(order, "call")
    await stage.wait_held()
    pid = await stage.kill_busy(_WORKER)
    stage.narrator.event(
        f"the charge is on its way: the worker, process {pid}, is killed (SIGKILL)"
    )
    await stage.provider(hold=False)
    stage.narrator.event("the charge still arrives: the provider takes the money")
    await stage.ask(order, "retry", again=True)
    await stage.look(accepted, order.tenant, "meanwhile")
    await stage.narrator.countdown(
        VISIBILITY_TIMEOUT_S, "waiting until the queue delivers the message again"
    )
    await stage.await_end(accepted, "end")


async def refunds_killed(stage: Stage) -> None:
    """Two processes killed during their refunds, and retries before and after their leases' end."""
    in_vain, arriving = stage.refund(100), stage.refund(200)
    await stage.provider(fail=1, delay_ms=_LATE_MS)
    (running,) = stage.ask_at_once(in_vain, "killed", 1)
    await stage.wait_called()
    pid = await stage.kill_busy(_REFUNDS)
    stage.narrator.event(
        "this refund reaches the provider, which fails to make it: "
        f"process {pid}, which waits for the answer, is killed (SIGKILL)"
    )
    stage.narrator.answers([await running])
    await stage.provider(delay_ms=0, hold=True)
    (running,) = stage.ask_at_once(arriving, "killed", 1)
    await stage.wait_held()
    pid = await stage.kill_busy(_REFUNDS)
    stage.narrator.event(
        f"this one is on its way: process {pid}, which sent it, is killed (SIGKILL)"
    )
    stage.narrator.answers([await running])
    await stage.provider(hold=False)
    stage.narrator.event("it still arrives: the provider refunds the money")
    for order in (in_vain, arriving):
        await stage.ask(order, "early", again=True)
    await stage.narrator.countdown(_LEASE_S, "waiting until the dead requests' leases end")
    for order in (in_vain, arriving):
        await stage.ask_again(order, "late", 2)
    stage.keep_refunds(in_vain, arriving)


async def provider_tells(stage: Stage) -> None:
    """The provider's events, held until now, and the retries of both refunds."""
    in_vain, arrived = stage.recall_refunds()
    delivered = await stage.send_events(copies=2)
    await stage.messages_done()
    stage.narrator.event(
        "the provider sends its events of all scenes so far, each of them twice: "
        f"{delivered} deliveries"
    )
    await stage.ask(arrived, "told", again=True)
    await stage.ask(in_vain, "untold", again=True)


async def reconciler_asks(stage: Stage) -> None:
    """A run of the reconciler, and two retries of the refund that was never made."""
    in_vain, _ = stage.recall_refunds()
    asked, settled = await stage.reconcile()
    stage.narrator.event(f"the reconciler runs: {asked} asked about, {settled} settled")
    await stage.ask(in_vain, "first", again=True)
    await stage.ask(in_vain, "retry", again=True)


async def lost_charge_answer(stage: Stage) -> None:
    """The provider charges and does not answer."""
    await stage.provider(lose_answer=1)
    stage.narrator.event("the provider's next answer will be lost on its way back")
    accepted = await stage.ask(stage.order(1700), "call")
    await stage.narrator.countdown(
        VISIBILITY_TIMEOUT_S, "waiting until the queue delivers the message again"
    )
    await stage.await_end(accepted, "end")


async def lost_reserve_answer(stage: Stage) -> None:
    """The store reserves and does not answer."""
    await stage.store(lose_answers=1)
    stage.narrator.event("the store's next answer to a write will be lost on its way back")
    await stage.await_end(await stage.ask(stage.order(1800), "call"), "end")


async def store_gone(stage: Stage) -> None:
    """A request while the store is down, and its retry."""
    order = stage.order(1900)
    await stage.store(down=True)
    stage.narrator.event("the store is gone")
    refused = await stage.ask(order, "down")
    await stage.store(down=False)
    retry_after = refused.headers.get("retry-after", "")
    stage.narrator.event("the store is back")
    if retry_after.isdecimal():
        wait_s = min(int(retry_after), 5)
        await stage.narrator.countdown(wait_s, "the client waits, as Retry-After says")
    await stage.await_end(await stage.ask(order, "retry", again=True), "end")


async def declined(stage: Stage) -> None:
    """A declined card, and the same call again."""
    order = stage.order(2000)
    await stage.provider(decline=1)
    stage.narrator.event("the provider will decline this card, once")
    await stage.await_end(await stage.ask(order, "first"), "end")
    await stage.ask(order, "retry", again=True)
