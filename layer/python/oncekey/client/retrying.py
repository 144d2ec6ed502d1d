"""When a client sends a request again, and after which pause. Pure, for every HTTP library.

The order of what decides is that of `_is_worth_it`: the most authoritative statement comes first.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from oncekey.clock import Clock, SystemClock
from oncekey.errors import ConfigurationError, OncekeyError
from oncekey.http import wire
from oncekey.http.http_date import http_date, read_http_date
from oncekey.http.methods import SAFE
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

# Statuses that mean "not now", if the answer says nothing else: RFC 9110, section 15.5.9;
# draft-ietf-httpapi-idempotency-key-header-07, section 2.6; RFC 8470, section 5.2; RFC 6585,
# section 4.
_NOT_NOW = frozenset({408, 409, 425, 429})
_SERVER_FAILED = 500
_MOST_DIGITS = 12
_CLOCK = ("now_ms", "pause", "random_fraction", "new_operation_id")
_LONGEST_S = {"total_s": float("inf"), "first_pause_s": 86_400, "longest_pause_s": 86_400}
# A millisecond has become longer than any pause by then, and is still a number.
_MOST_DOUBLINGS = 64


class BodyNotReplayable(OncekeyError, TypeError):  # noqa: N818 -- the state of the body
    """The body of a request can be read only once, so the request cannot be sent again.

    Nothing was sent. Pass bytes, text, `json=` or `data=`, or read the body into memory first.
    `url` has neither a query nor a password, which the text of an error must not repeat.
    """

    def __init__(self, method: str, url: str) -> None:
        self.method, self.url = method, _without_secrets(url)
        super().__init__(self.method, self.url)

    def __str__(self) -> str:
        return (
            f"the body of {self.method} {self.url} is a stream that can be read only once, so the"
            " request could not be sent again: pass bytes, text, json= or data="
        )


class Retrying(Value, kw_only=True):
    """How long and how often a request is sent, and which requests get a key.

    Args:
        attempts: how often a request is sent at the most.
        total_s: the time from the first sending in which another one may begin; `math.inf` for any
            time. How long one sending may take is the timeout of your HTTP client. It should be
            longer than the API takes, which is up to 30 s.
        first_pause_s: the longest pause before the second sending. It doubles with each sending.
            The pause is drawn between none and the longest, so that clients that failed together
            do not come back together. A pause of `Retry-After` is added to it.
        longest_pause_s: the cap of that doubling.
        methods: the methods whose requests get a new key if they have none.
        sends_first_sent: whether a keyed request says in `Repeatability-First-Sent` when it was
            first sent. The API then refuses it (412) if its record may have expired. The clock of
            this machine must be right. A key of yours may be older than this request, so it gets
            no date: pass the header, too.
        clock: the source of time and randomness, for tests.

    Raises:
        ConfigurationError: a value is wrong; the message names every fault.
    """

    attempts: int = 10
    total_s: float = 90
    first_pause_s: float = 0.2
    longest_pause_s: float = 10
    methods: Collection[str] = ("POST", "PATCH")
    sends_first_sent: bool = False
    clock: Clock = field(default_factory=SystemClock, repr=False)

    def __post_init__(self) -> None:
        faults: list[str] = []
        if not _is_number(self.attempts, int) or self.attempts < 1:
            faults.append(f"attempts is {self.attempts!r}: a whole number from 1 is needed")
        faults += [
            f"{name} is {seconds!r}: a number of seconds from 0 to {longest} is needed"
            for name, longest in _LONGEST_S.items()
            if not _is_number(seconds := getattr(self, name), int | float)
            or not 0 <= seconds <= longest
        ]
        if not isinstance(self.sends_first_sent, bool):
            faults.append(f"sends_first_sent is {self.sends_first_sent!r}: True or False is needed")
        if isinstance(self.clock, type):
            faults.append(f"clock is the class {self.clock.__name__}: pass an object of it")
        elif not all(hasattr(self.clock, name) for name in _CLOCK):
            faults.append("clock is no clock: leave it out, or pass a ManualClock in tests")
        given: object = self.methods
        is_listed = isinstance(given, Collection) and not isinstance(given, str | bytes)
        if is_listed and all(isinstance(each, str) for each in self.methods):
            object.__setattr__(self, "methods", tuple(each.upper() for each in self.methods))
        else:
            faults.append("methods is a collection of methods, such as ('POST', 'PATCH')")
        if faults:
            raise ConfigurationError("Retrying", faults)

    def begin(self, method: str, headers: MutableMapping[str, str]) -> Tries:
        """The tries of a request. Adds the key to its `headers`, unless it has one.

        `headers` finds names in any letter case, as those of httpx and requests do.
        """
        now_ms = self.clock.now_ms()
        if wire.KEY not in headers and method.upper() in self.methods:
            headers[wire.KEY] = self.clock.new_operation_id()
            if self.sends_first_sent and wire.FIRST_SENT not in headers:
                headers[wire.FIRST_SENT] = http_date(now_ms // 1000)
        return Tries(
            self, is_keyed=wire.KEY in headers, is_safe=method.upper() in SAFE, begun_ms=now_ms
        )


def _without_secrets(url: str) -> str:
    scheme, mark, rest = re.split("[?#]", url, maxsplit=1)[0].partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"


def _is_number(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


class Tries:
    """The tries of one request.

    `is_keyed`: it has a key. `may_repeat`: it may be sent again at all, because it has a key or
    changes nothing.
    """

    def __init__(self, retrying: Retrying, *, is_keyed: bool, is_safe: bool, begun_ms: int) -> None:
        self.is_keyed = is_keyed
        self.may_repeat = (is_keyed or is_safe) and retrying.attempts > 1
        self._retrying = retrying
        self._begun_ms = begun_ms
        self._sent = 0

    def pause_after(self, status: int, headers: Mapping[str, str], body: bytes) -> int | None:
        """Milliseconds until the request is to be sent again; None if the answer is the last."""
        if not _is_worth_it(status, headers, body):
            return None
        return self._pause(self._asked_for_ms(headers.get(wire.RETRY_AFTER, "")))

    def pause_after_error(self) -> int | None:
        """The same after a sending without an answer."""
        return self._pause(0)

    def _pause(self, asked_for_ms: int) -> int | None:
        self._sent += 1
        retrying = self._retrying
        doublings = min(self._sent - 1, _MOST_DOUBLINGS)
        longest_s = min(retrying.longest_pause_s, retrying.first_pause_s * 2**doublings)
        pause_ms = asked_for_ms + int(1000 * longest_s * retrying.clock.random_fraction())
        ends_ms = self._begun_ms + 1000 * retrying.total_s
        is_over = self._sent >= retrying.attempts or retrying.clock.now_ms() + pause_ms > ends_ms
        return None if is_over or not self.may_repeat else pause_ms

    def _asked_for_ms(self, retry_after: str) -> int:
        """Seconds or a date (RFC 9110, section 10.2.3)."""
        text = retry_after.strip()
        if text.isascii() and text.isdecimal():
            # Python refuses to read thousands of digits. A part of them is longer than any wait.
            return 1000 * int(text.lstrip("0")[:_MOST_DIGITS] or 0)
        at_s = read_http_date(text)
        return max(0, 1000 * at_s - self._retrying.clock.now_ms()) if at_s is not None else 0


def check_retrying(where: str, retrying: object) -> None:
    """Return if `retrying` is one, or is left out.

    Raises:
        ConfigurationError: it is not.
    """
    if retrying is not None and not isinstance(retrying, Retrying):
        kind = type(retrying).__name__
        raise ConfigurationError(where, [f"retrying is a {kind}: pass Retrying(attempts=5)"])


def is_certificate_refused(error: BaseException) -> bool:
    """Whether there is no answer because the peer's certificate was refused.

    It is as wrong the next time. Any other failure of TLS is one of the connection: a handshake or
    a record that broke off.
    """
    # The libraries wrap the error, more than once.
    around: list[BaseException | None] = [error]
    for each in around:
        if isinstance(each, ssl.SSLCertVerificationError):
            return True
        if each is not None:
            within = (each.__cause__, each.__context__)
            around += [wrapped for wrapped in within if wrapped not in around]
    return False


def _is_worth_it(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    for verdict in _verdicts(headers, body):
        return verdict
    return status in _NOT_NOW or status >= _SERVER_FAILED


def _verdicts(headers: Mapping[str, str], body: bytes) -> Iterator[bool]:
    """What the answer itself says about a retry."""
    if wire.EXPIRES in headers:
        yield False  # the answer is stored, so the same key gets it again
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() == wire.PROBLEM:
        retryable = _member(body, "retryable")
        if isinstance(retryable, bool):
            yield retryable
    should_retry = headers.get(wire.SHOULD_RETRY, "").strip().lower()
    if should_retry in {"true", "false"}:
        yield should_retry == "true"


def _member(body: bytes, name: str) -> object:
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value.get(name) if isinstance(value, dict) else None
