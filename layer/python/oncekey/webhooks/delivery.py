"""A webhook as its function sees it, and what the function makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.webhooks.signatures import read_json

if TYPE_CHECKING:
    from oncekey.http.event import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event whose signature holds.

    `id` is the same whenever the event is sent, `body` what was signed. What `request` has beside
    it, such as `X-GitHub-Event`, is signed by no scheme but the id and time of Standard Webhooks.
    """

    id: str
    body: bytes = field(repr=False)
    request: HttpRequest = field(repr=False)

    def json(self) -> Any:
        """The body's JSON.

        Raises:
            RequestRefused: it is none. Left to pass, it is answered 400 `event-invalid`.
        """
        return read_json(self.body)


@dataclass(frozen=True, slots=True)
class Publish:
    """A message about `topic` with a JSON `payload`, for the outbox.

    It is kept until the queue has it: put into it what the worker needs, and no more.
    """

    topic: str
    payload: object = field(repr=False)
