"""Who may talk to a server on the loopback address.

Any page in the browser of this machine can send requests to it. Three checks keep such pages out:

- The `Host` header is a name of the loopback address. A foreign name that resolves to it (DNS
  rebinding) is refused.
- `Origin` and `Sec-Fetch-Site` are those of the server's own page, if the browser sends them.
- The console asks for a token in a header of its own, which no page of another origin may send.
"""

from __future__ import annotations

import re
from hmac import compare_digest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# The token's header. No form and no simple cross-site request can have it.
TOKEN_HEADER = "x-oncekey-console"  # noqa: S105 -- the header's name
_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
# `none`: the person typed the address or opened a bookmark.
_OWN_SITES = frozenset({"same-origin", "none"})


def foreign(headers: Mapping[str, str]) -> str | None:
    """Why a request is not from this machine's own pages and programs; None if it is.

    Header names are lower-case. A program such as `curl` sends neither `Origin` nor
    `Sec-Fetch-Site`, and passes.
    """
    host = headers.get("host", "")
    if _LOOPBACK.fullmatch(host) is None:
        return "the Host header is no name of the loopback address"
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"http://{host}".lower():
        return "the request comes from a page of another origin"
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return "the request comes from a page of another site"
    return None


def has_token(headers: Mapping[str, str], token: str) -> bool:
    """Whether the request has the console's token."""
    given = headers.get(TOKEN_HEADER, "")
    return compare_digest(given.encode("utf-8", "replace"), token.encode())
