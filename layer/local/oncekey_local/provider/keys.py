"""Stripe's memory of idempotency keys.

What began execution is remembered with its answer, errors included. What was refused before that is
not, and may be sent again under the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oncekey_local.provider.errors import invalid_request, key_in_use, key_reused

KEY_LENGTH_MAX = 255

Fingerprint = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A status and a body, and the id of the request that they were made for."""

    status: int
    body: dict[str, Any]
    request_id: str


@dataclass
class _Entry:
    fingerprint: Fingerprint
    answer: Answer | None = None


class KeyMemory:
    """Which keys were used, with which parameters, and what was answered; it never forgets."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def look_up(self, key: str | None, fingerprint: Fingerprint) -> Answer | None:
        """The answer to replay, or None where the request is a new one.

        Raises a `ProviderError` while the first request under the key runs (409) and for other
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
        """Bind the key to these parameters; until `finish` it is in use for everybody else."""
        if key is not None:
            self._entries[key] = _Entry(fingerprint)

    def finish(self, key: str | None, answer: Answer) -> None:
        """Keep the answer for good."""
        if key is not None:
            self._entries[key].answer = answer
