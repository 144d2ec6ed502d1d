"""How an API words its refusals and marks its replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncekey.http.answer import Answer


class Marks:
    """What the headers of an answer are made of.

    `key` is the header as the client sent it; `expires_at_s` is None where the answer is not kept;
    `request_id` is the gateway's id of this request, if it gave one.
    """

    __slots__ = ("expires_at_s", "is_replay", "key", "operation_id", "request_id")

    def __init__(
        self,
        *,
        key: str,
        operation_id: str,
        is_replay: bool,
        expires_at_s: int | None,
        request_id: str | None,
    ) -> None:
        self.key = key
        self.operation_id = operation_id
        self.is_replay = is_replay
        self.expires_at_s = expires_at_s
        self.request_id = request_id


class Preset(Protocol):
    """One way to word the contract. The cases are the same in all of them."""

    @property
    def name(self) -> str:
        """What records call it, for those who speak in the handler's place."""
        ...

    @property
    def store_when(self) -> str:
        """Which answers are stored unless an operation says otherwise: `final` or `begun`."""
        ...

    def refusal(
        self,
        code: str,
        *,
        base: str,
        detail: str | None = None,
        retry_after_ms: int | None = None,
        retryable: bool = True,
    ) -> Answer:
        """The answer for the problem `code` (see `oncekey.problem.PROBLEMS`).

        `retryable` is given, as False, where this time no waiting helps, whatever the code says.
        """
        ...

    def refusal_headers(self, request_id: str | None) -> dict[str, str]:
        """The headers of a refusal beside its own; `request_id` is the gateway's."""
        ...

    def headers(self, marks: Marks) -> dict[str, str]:
        """The headers of a first answer or a replay."""
        ...
