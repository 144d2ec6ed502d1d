"""The argument and the result of a webhook's function."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.webhooks.signatures import read_json

if TYPE_CHECKING:
    from oncekey.http.event import HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event with a valid signature.

    `id` is the same each time the event is sent. `body` is the signed text. The rest of `request`,
    such as `X-GitHub-Event`, is not signed, except the id and time of Standard Webhooks.
    """

    id: str
    body: bytes = field(repr=False)
    request: HttpRequest = field(repr=False)

    def json(self) -> Any:
        """The body's JSON.

        Raises:
            RequestRefused: the body is not JSON. If you do not catch it, the answer is 400
                `event-invalid`.
        """
        return read_json(self.body)


@dataclass(frozen=True, slots=True)
class Publish:
    """A message about `topic` with a JSON `payload`, for the outbox.

    It is stored until the queue has it. So put into it only what the worker needs.
    """

    topic: str
    payload: object = field(repr=False)
