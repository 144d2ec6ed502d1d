"""Stripe's memory of idempotency keys.

A request that began execution is remembered with its answer, even if that is an error. A request
that was refused before is not remembered, and may be sent again with the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncekey_local.provider.errors import invalid_request, key_in_use, key_reused

KEY_LENGTH_MAX = 255

Fingerprint = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The status and body of an answer, and the id of the request that it was made for."""

    status: int
    body: dict[str, Any]
    request_id: str


@dataclass
class _Entry:
    fingerprint: Fingerprint
    answer: Answer | None = None


class KeyMemory:
    """The used keys with their parameters and answers. None is ever forgotten."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def look_up(self, key: str | None, fingerprint: Fingerprint) -> Answer | None:
        """The answer to replay; None for a new request.

        Raises:
            ProviderError: the first request with the key is still running (409), or it had other
                parameters (400).
        """
        if key is None:
            return None
        if not 0 < len(key) <= KEY_LENGTH_MAX:
            raise invalid_request(f"Idempotency-Key must have 1 to {KEY_LENGTH_MAX} characters.")
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.fingerprint != fingerprint:
            raise key_reused(key)
        if entry.answer is None:
            raise key_in_use(key)
        return entry.answer

    def begin(self, key: str | None, fingerprint: Fingerprint) -> None:
        """Bind the key to these parameters. For other requests, it is in use until `finish`."""
        if key is not None:
            self._entries[key] = _Entry(fingerprint)

    def finish(self, key: str | None, answer: Answer) -> None:
        """Store the answer, for ever."""
        if key is not None:
            self._entries[key].answer = answer
