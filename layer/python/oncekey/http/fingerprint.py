"""The fingerprint of a request: a hash of its content, so that one key serves one request only."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from oncekey.base64url import base64url
from oncekey.clock import is_beyond_the_calendar
from oncekey.encoding.canonical import NotCanonical, canonical_json, canonical_value
from oncekey.errors import ConfigurationError, OncekeyError
from oncekey.http import wire
from oncekey.http.event import without_prefix
from oncekey.misfits import MISFITS
from oncekey.record.identity import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oncekey.http.body_models import Model
    from oncekey.http.event import HttpRequest

    # Selects the part of a request that counts: a callable that returns a JSON value, or a model of
    # the body.
    Selection = Callable[[HttpRequest], Any] | type[Model]

# The algorithm's version. A stored fingerprint is compared using the algorithm that it names.
VERSION = "f1:"

# For these kinds of content, the media type counts unless it is plain JSON.
_OF_THE_BODY = frozenset({"json", "model", "model bytes"})
_PLAIN = frozenset({"", wire.JSON})
_NO_QUERY = digest()


class Fingerprint:
    """The fingerprints of one request, by the current and the older algorithms and secrets.

    `by_algorithm` has the plain hash of each algorithm, the newest first. With `secrets`, the
    newest first, the fingerprints are HMACs. `current` is stored with a new record.
    """

    __slots__ = ("by_algorithm", "current", "secrets")

    def __init__(self, by_algorithm: dict[str, str], secrets: tuple[bytes, ...] = ()) -> None:
        version, plain = next(iter(by_algorithm.items()))
        self.by_algorithm = by_algorithm
        self.secrets = secrets
        self.current = version + (_keyed(secrets[0], plain) if secrets else plain)

    def accepts(self, recorded: str) -> bool:
        """Whether a stored fingerprint belongs to this request, by any known algorithm and secret.

        A fingerprint without a secret is accepted too: it was stored before there was a secret.
        """
        version = recorded[: recorded.find(":") + 1]
        plain = self.by_algorithm.get(version)
        if plain is None:
            return False
        if not self.secrets:
            # It is not secret: anyone who has the request can compute it.
            return recorded == version + plain
        import hmac

        known = [plain, *(_keyed(secret, plain) for secret in self.secrets)]
        return any(
            hmac.compare_digest((version + text).encode(), recorded.encode()) for text in known
        )


class LeftOut:
    """The parts of a request that do not count: query parameters, and a prefix of its path.

    A name that ends with `*` matches all names with that beginning.
    """

    __slots__ = ("base_path", "query")

    def __init__(self, *, query: frozenset[str] = frozenset(), base_path: str = "") -> None:
        self.query = query
        self.base_path = base_path

    def of(self, request: HttpRequest) -> HttpRequest:
        """`request` without these parts; the same object if it has none of them."""
        path, raw_query = request.served_path, request.raw_query
        if self.base_path:
            path = without_prefix(path, self.base_path)
        if self.query:
            pieces = [each for each in raw_query.split("&") if not self._has(each)]
            raw_query = "&".join(pieces)
        if path == request.path and raw_query == request.raw_query:
            return request
        return request.at(path, raw_query)

    def _has(self, piece: str) -> bool:
        name = _decoded(piece.partition("=")[0]).decode("utf-8", "surrogateescape")
        return any(
            name.startswith(each[:-1]) if each.endswith("*") else name == each
            for each in self.query
        )


NOTHING = LeftOut()


def fingerprints(
    request: HttpRequest,
    select: Selection | None = None,
    secrets: tuple[bytes, ...] = (),
    left_out: LeftOut = NOTHING,
) -> Fingerprint:
    """The fingerprint of `request` by every algorithm that a record may have.

    With a callable as `select`, its result replaces the body. With a model, the result of
    `model_body` does.

    Raises:
        RequestRefused: the body does not fit the model, or the callable failed on the request or
            selected a value without a canonical form, such as NaN (`request-invalid`).
        ConfigurationError: the callable selected a value of a type that has none.
    """
    counted = left_out.of(request)
    selecting = select if counted is request else _seeing(request, select)
    hashes: dict[str, str] = {}
    for version, compute in ALGORITHMS.items():
        hashes[version] = compute(counted, selecting)
    return Fingerprint(hashes, secrets)


def selected_fingerprint(selected: Any, secrets: tuple[bytes, ...] = ()) -> Fingerprint:
    """The fingerprint of a function call, from the values selected from its arguments.

    Raises:
        ConfigurationError: a selected value has a type that fingerprints do not support; the
            message names its path. See `oncekey.encoding.key_values`.
    """
    return Fingerprint({VERSION: digest("call", *_canonical(selected))}, secrets)


def _keyed(secret: bytes, plain: str) -> str:
    import hmac

    return base64url(hmac.digest(secret, plain.encode("ascii"), "sha256"))


def _seeing(request: HttpRequest, select: Selection | None) -> Selection | None:
    """`select`, called with the whole `request`, including the parts that do not count."""
    if select is None or isinstance(select, type):
        return select
    return functools.wraps(select)(lambda _counted: select(request))


def _f1(request: HttpRequest, select: Selection | None) -> str:
    """The hash of the method, concrete path, query and canonical body of `request`.

    A JSON body is canonicalised (RFC 8785), so key order, white space and the spelling of numbers
    do not matter. A body without a canonical form is hashed byte for byte. A media type other than
    plain `application/json` counts, with its parameters except the charset, because a JSON patch
    and a merge patch with the same body are different requests. The path counts without its stage.
    The query counts as decoded pairs, sorted by name; the values of one name keep their order.
    """
    kind, body = _body(request) if select is None else _selected(request, select)
    if kind in _OF_THE_BODY and (content_type := request.content_type) not in _PLAIN:
        kind = f"{kind} {content_type}"
    query = digest(*_flat(query_pairs(request))) if request.raw_query else _NO_QUERY
    return digest(request.method, request.path, query, kind, body)


# The newest first. A release with a new algorithm adds it before the old one, and keeps the old one
# as long as there are records with it.
ALGORITHMS: dict[str, Callable[[HttpRequest, Selection | None], str]] = {VERSION: _f1}


def _body(request: HttpRequest) -> tuple[str, bytes]:
    body = request.body
    if may_be_json(request.media_type, body):
        try:
            return "json", canonical_json(body)
        except NotCanonical:
            pass
    return f"bytes {request.content_type}", body


def may_be_json(media_type: str, body: bytes) -> bool:
    """Whether to read a body as JSON, if it can be parsed."""
    # A bare "1.0" equals "1" only as JSON and not as text, so the media type decides. An object or
    # an array is JSON with any media type, because clients often send the wrong one.
    declared = media_type in _PLAIN or media_type.endswith("+json")
    return declared or body.lstrip()[:1] in {b"{", b"["}


def _selected(request: HttpRequest, select: Selection) -> tuple[str, bytes]:
    from oncekey.http.body_models import model_body, unfit

    if isinstance(select, type):
        return model_body(request.body, select)
    try:
        value = select(request)
    except OncekeyError:
        raise
    except (*MISFITS, OSError) as error:
        if not isinstance(error, MISFITS) and not is_beyond_the_calendar(error):
            raise
        raise unfit(select, error) from error
    try:
        return _canonical(value)
    except _UnfitError as error:
        from oncekey.encoding.key_values import UnfitValue

        # The selected values are the client's. The log has the name of a public class.
        raise unfit(select, UnfitValue()) from error


class _UnfitError(ConfigurationError):
    """The selected values have supported types, and one of them has no canonical form."""


def _canonical(value: Any) -> tuple[str, bytes]:
    from oncekey.encoding.key_values import (
        NotAKeyValue,
        UnfitValue,
        is_json,
        json_value,
        spelled,
    )

    try:
        if not is_json(value):
            return "selected values", spelled(json_value(value)).encode("utf-8")
    except RecursionError:
        fault = "must select a JSON value: it is too deep"
        raise _UnfitError("fingerprint", [fault]) from None
    except ValueError as reason:
        fault = f"must select a JSON value, or dates, UUIDs, models and the like: {reason}"
        is_type = isinstance(reason, NotAKeyValue) and not isinstance(reason, UnfitValue)
        kind = ConfigurationError if is_type else _UnfitError
        raise kind("fingerprint", [fault]) from None
    try:
        return "selected", canonical_value(value)
    except NotCanonical:
        # For example an integer above 2^53-1. Python writes it exactly, but RFC 8785 has no form
        # for it.
        return "selected exactly", _dumped(value)


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise _UnfitError("fingerprint", [f"must select a JSON value: {error}"]) from error


def query_pairs(request: HttpRequest) -> Sequence[tuple[bytes, bytes]]:
    """The query as decoded pairs of bytes, sorted by name. Values of one name keep their order."""
    pairs = [piece.partition("=") for piece in request.raw_query.split("&") if piece]
    decoded = [(_decoded(name), _decoded(value)) for name, _, value in pairs]
    return sorted(decoded, key=lambda pair: pair[0])


def _decoded(text: str) -> bytes:
    raw = text.replace("+", " ").encode("utf-8", "surrogatepass")
    if b"%" not in raw:
        return raw
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(raw)


def _flat(pairs: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    return [part for pair in pairs for part in pair]
