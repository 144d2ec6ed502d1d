"""Unpadded base64url (RFC 4648, section 5)."""

from __future__ import annotations

from binascii import b2a_base64

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def base64url(raw: bytes) -> str:
    """`raw` as unpadded base64url."""
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode("ascii")
