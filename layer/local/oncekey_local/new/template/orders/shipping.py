"""The carrier. Put your own call of a provider here."""

from __future__ import annotations

import hashlib


def book_parcel(item: str, *, idempotency_key: str) -> str:
    """Book a parcel, and return its number.

    A real carrier gets the key with the request, and answers a repeated key with the first number.
    This stand-in derives the number from the key, which has the same effect.
    """
    return f"parcel-{hashlib.sha256(f'{item} {idempotency_key}'.encode()).hexdigest()[:12]}"
