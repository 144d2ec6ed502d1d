"""The provider's webhook events, signed like Stripe's and sent at least once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import aiohttp

from oncekey_local.identifiers import new_letters, now_ms
from oncekey_local.log import log

_API_VERSION = "2025-03-31.basil"
_ID_LENGTH = 24
_ANSWER_WITHIN_S = 10
# About twenty seconds in all. Stripe continues for three days.
_PAUSES_S = (0.1, 0.3, 1.0, *[2.0] * 9)
COPIES_MAX = 10


@dataclass(frozen=True, kw_only=True)
class Target:
    """The address for events, the secret that signs them, and whether they are held at first."""

    url: str
    secret: str = field(repr=False)
    is_held: bool = False


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How events are sent: whether they are held, how often each is sent, and in which order."""

    hold: bool = False
    copies: int = 1
    newest_first: bool = False


class Webhooks:
    """The events of one world, sent one after the other.

    An event is sent until it is answered with a 2xx, or is given up after about twenty seconds.
    Later events wait for it. Without a target there are no events.
    """

    def __init__(self, target: Target | None) -> None:
        self._target = target
        self._manner = Manner(hold=target is not None and target.is_held)
        self._waiting: list[bytes] = []
        self._is_sending = False
        self._delivered = 0
        self._given_up = 0
        # `_work`: an event can be sent now. `_calm`: `set` has nothing to wait for.
        self._work, self._calm = asyncio.Event(), asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    def emit(self, kind: str, thing: dict[str, Any]) -> None:
        """Add an event about `thing`, in its present state, to be sent."""
        if self._target is None:
            return
        event = {
            "id": f"evt_{new_letters(_ID_LENGTH)}",
            "object": "event",
            "api_version": _API_VERSION,
            "created": now_ms() // 1000,
            "data": {"object": thing},
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": None, "idempotency_key": None},
            "type": kind,
        }
        self._waiting.append(json.dumps(event, indent=2).encode("utf-8"))
        self._judge()
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all(self._target))

    async def set(self, changes: object) -> None:
        """Change how events are sent. Members that are not named stay unchanged.

        When it returns without a hold, every event so far has been delivered or given up.

        Raises:
            ValueError: a value is wrong; the message names every fault, and nothing was changed.
        """
        if problems := _problems(changes):
            raise ValueError("; ".join(problems))
        assert isinstance(changes, dict)
        self._manner = replace(self._manner, **changes)
        self._judge()
        await self._calm.wait()

    def state(self) -> dict[str, Any]:
        """How events are sent, how many wait, and how many deliveries succeeded or failed."""
        return {
            **asdict(self._manner),
            "waiting": len(self._waiting) + self._is_sending,
            "delivered": self._delivered,
            "given_up": self._given_up,
        }

    async def close(self) -> None:
        """Stop sending. Waiting events are dropped."""
        self._target = None
        self._waiting.clear()
        if self._sender is not None:
            self._sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sender
        self._is_sending = False
        self._judge()

    def _judge(self) -> None:
        may_send = bool(self._waiting) and not self._manner.hold
        (self._work.set if may_send else self._work.clear)()
        is_calm = self._manner.hold or not (self._waiting or self._is_sending)
        (self._calm.set if is_calm else self._calm.clear)()

    async def _send_all(self, target: Target) -> None:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self._work.wait()
                event = self._waiting.pop(-1 if self._manner.newest_first else 0)
                self._is_sending = True
                self._judge()
                for _ in range(self._manner.copies):
                    await self._send(session, target, event)
                self._is_sending = False
                self._judge()

    async def _send(self, session: aiohttp.ClientSession, target: Target, event: bytes) -> None:
        for pause_s in (*_PAUSES_S, None):
            if await _is_taken(session, target, event):
                self._delivered += 1
                return
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        self._given_up += 1
        log("oncekey provider: an event was given up, nobody has taken it")


async def _is_taken(session: aiohttp.ClientSession, target: Target, event: bytes) -> bool:
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Stripe-Signature": signature(event, target.secret, now_ms() // 1000),
        "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
    }
    try:
        async with session.post(
            target.url, data=event, headers=headers, allow_redirects=False
        ) as answer:
            return 200 <= answer.status < 300
    except (aiohttp.ClientError, TimeoutError):
        return False


def signature(body: bytes, secret: str, at_s: int) -> str:
    """The header `Stripe-Signature` for `body`, sent at `at_s` (epoch seconds)."""
    signed = f"{at_s}.".encode() + body
    digest = hmac.new(secret.encode("utf-8"), signed, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def _problems(changes: object) -> list[str]:
    if not isinstance(changes, dict):
        return ["send a JSON object"]
    names = ("hold", "copies", "newest_first")
    problems = [
        f"{name!r} is not known: one of {', '.join(names)}" for name in changes if name not in names
    ]
    copies = changes.get("copies", 1)
    if type(copies) is not int or not 1 <= copies <= COPIES_MAX:
        problems.append(f"'copies' must be a whole number from 1 to {COPIES_MAX}")
    problems += [
        f"{name!r} must be true or false"
        for name in ("hold", "newest_first")
        if type(changes.get(name, False)) is not bool
    ]
    return problems
