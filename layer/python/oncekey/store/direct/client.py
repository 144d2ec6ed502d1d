"""A client of DynamoDB with those operations of boto3's that the library uses.

One call is one attempt: whoever calls decides whether to send it again. A request is sent a second
time only if DynamoDB cannot have carried out the first: it was not sent whole on a kept connection
that had died, or its signature was refused because the clock is wrong.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections import deque
from typing import TYPE_CHECKING, Any
from zlib import crc32

from oncekey.clock import Clock, SystemClock, elapsed_s
from oncekey.store.direct.certificates import Verification
from oncekey.store.direct.connection import Connection, connect
from oncekey.store.direct.credentials import source_in
from oncekey.store.direct.endpoint import address_of, endpoint_in
from oncekey.store.direct.errors import (
    ChecksumError,
    RequestNotSent,
    ResponseParserError,
    client_error,
)
from oncekey.store.direct.signing import Signer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.store.direct.connection import Answer
    from oncekey.store.direct.signing import Credentials

# A connection that was idle for longer is closed. A frozen sandbox does not see that its peer has
# closed a connection, and a gateway on the way may have forgotten it. AWS's SDK for Java keeps idle
# connections for 60 s.
_MOST_IDLE_MS = 50_000
# More connections than threads that a handler usually starts; each uses one at a time.
_MOST_IDLE_CONNECTIONS = 64
# AWS refuses signatures that are five minutes old. A smaller difference is not corrected.
_LEAST_SKEW_S = 240
_CLOCK_ERROR_CODES = {"InvalidSignatureException", "RequestExpired", "RequestTimeTooSkewed"}
_TARGET = "DynamoDB_20120810."


class DirectClient:
    """Calls of DynamoDB. Methods take the parameters and return the answers of boto3's client.

    Creating it sends nothing. Threads may share it. In a forked process, and after a snapshot was
    restored, it makes new connections.

    Args:
        environment: describes the endpoint and the credentials, as for boto3.
        call_timeout_ms: the longest that one call may take, with its name resolved, connected,
            secured, sent and received. A third of it is for the connection.
        clock: the time of signatures and of expiries.
        user_agent: what CloudTrail shows of the caller.

    Raises:
        LeftToBoto3: the environment describes an endpoint that only boto3 finds.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        call_timeout_ms: int,
        clock: Clock | None = None,
        *,
        user_agent: str = "oncekey",
    ) -> None:
        self._environment = environment
        self._endpoint = endpoint_in(environment)
        certificates = self._endpoint.certificates
        self._tls = Verification(certificates) if certificates else None
        self._timeout_s = call_timeout_ms / 1000
        self._now_ms = (clock or SystemClock()).now_ms
        self._user_agent = user_agent
        self._idle: deque[Connection] = deque()
        self._reset()
        _reset_after_restore(environment, self._reset)

    def put_item(self, **parameters: Any) -> dict[str, Any]:
        """PutItem."""
        return self._call("PutItem", parameters)

    def update_item(self, **parameters: Any) -> dict[str, Any]:
        """UpdateItem."""
        return self._call("UpdateItem", parameters)

    def get_item(self, **parameters: Any) -> dict[str, Any]:
        """GetItem."""
        return self._call("GetItem", parameters)

    def query(self, **parameters: Any) -> dict[str, Any]:
        """One page of a Query."""
        return self._call("Query", parameters)

    def scan(self, **parameters: Any) -> dict[str, Any]:
        """One page of a Scan."""
        return self._call("Scan", parameters)

    def transact_write_items(self, **parameters: Any) -> dict[str, Any]:
        """TransactWriteItems."""
        return self._call("TransactWriteItems", parameters)

    def batch_write_item(self, **parameters: Any) -> dict[str, Any]:
        """BatchWriteItem."""
        return self._call("BatchWriteItem", parameters)

    def close(self) -> None:
        """Close the idle connections, as boto3's method does. The client stays usable."""
        self._reset()

    def _reset(self) -> None:
        """Drop connections, credentials and the clock correction.

        It is called after a fork or a restored snapshot, too.
        """
        idle, self._idle = self._idle, deque()
        # Another thread may still add a connection to the old ones, or take one of them.
        while connection := _taken(idle):
            connection.close()
        self._source = source_in(self._environment)
        self._signed: tuple[Credentials | None, Signer | None] = (None, None)
        self._skew_ms = 0
        # Last, so that no thread uses what is dropped here.
        self._process = os.getpid()

    def _call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        body = _encoded(parameters).encode()
        deadline_s = elapsed_s() + self._timeout_s
        if os.getpid() != self._process:
            self._reset()
        skew_ms = self._skew_ms
        answer, parsed = self._sent(operation, body, deadline_s, skew_ms)
        if answer.status != 200 and self._correct_clock(answer, parsed, skew_ms):
            answer, parsed = self._sent(operation, body, deadline_s, self._skew_ms)
        if answer.status != 200:
            raise client_error(_error_response(answer, parsed), operation)
        parsed["ResponseMetadata"] = {"HTTPStatusCode": 200}
        return parsed

    def _sent(
        self, operation: str, body: bytes, deadline_s: float, skew_ms: int
    ) -> tuple[Answer, dict[str, Any]]:
        now_ms = self._now_ms()
        signer = self._signer(now_ms, deadline_s)
        second = (now_ms + skew_ms) // 1000
        request = signer.head(_TARGET + operation, body, second) + body
        kept = self._kept(signer.host, now_ms)
        if kept is not None:
            try:
                return self._exchanged(kept, request, deadline_s)
            except RequestNotSent as error:
                if isinstance(error.__cause__, TimeoutError):
                    raise
        return self._exchanged(self._connect(signer.host, deadline_s), request, deadline_s)

    def _exchanged(
        self, connection: Connection, request: bytes, deadline_s: float
    ) -> tuple[Answer, dict[str, Any]]:
        try:
            answer = connection.exchange(request, deadline_s)
            parsed = _parsed(answer)
        except BaseException:
            # Its answer could still come, and would be taken for that of the next request.
            connection.close()
            raise
        if not answer.stays_open or len(self._idle) >= _MOST_IDLE_CONNECTIONS:
            connection.close()
        else:
            connection.used_ms = self._now_ms()
            self._idle.append(connection)
        return answer, parsed

    def _kept(self, host: str, now_ms: int) -> Connection | None:
        """An idle connection that is still good, the one used last, or None."""
        while connection := _taken(self._idle):
            # By the wall clock, because the other one may stand still while the sandbox is frozen.
            is_young = 0 <= now_ms - connection.used_ms <= _MOST_IDLE_MS
            if is_young and connection.host == host and not connection.is_broken():
                return connection
            connection.close()
        return None

    def _connect(self, host: str, deadline_s: float) -> Connection:
        address = address_of(host, tls=self._tls is not None)
        connect_s = self._timeout_s / 3
        return connect(address, host, self._tls, connect_s, deadline_s)

    def _signer(self, now_ms: int, deadline_s: float) -> Signer:
        credentials = self._source.credentials(now_ms, deadline_s)
        known, signer = self._signed
        if signer is None or known is not credentials:
            host = self._endpoint.host_for(credentials.account_id)
            signer = Signer(credentials, self._endpoint.region, host, self._user_agent)
            self._signed = (credentials, signer)
        return signer

    def _correct_clock(self, answer: Answer, parsed: dict[str, Any], used_ms: int) -> bool:
        """Correct the clock of signatures if it is wrong by minutes. Returns whether it was.

        `used_ms` is the correction of the refused signature. Another thread may have corrected the
        clock meanwhile.
        """
        if _code(answer, parsed) not in _CLOCK_ERROR_CODES:
            return False
        from email.utils import parsedate_to_datetime

        try:
            there = parsedate_to_datetime(answer.header(b"date").decode("latin-1"))
        except ValueError:
            return False
        skew_ms = int(there.timestamp() * 1000) - self._now_ms()
        is_wrong = abs(skew_ms - used_ms) > _LEAST_SKEW_S * 1000
        if is_wrong:
            self._skew_ms = skew_ms
        return is_wrong

    def __repr__(self) -> str:
        return f"DirectClient({self._endpoint.host!r})"


def _taken(idle: deque[Connection]) -> Connection | None:
    """The connection used last, or None. Other threads may add and take connections meanwhile."""
    try:
        return idle.pop()
    except IndexError:
        return None


def _json_form(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    raise TypeError(f"a parameter is of type {type(value).__name__}")


_encoded = json.JSONEncoder(separators=(",", ":"), default=_json_form).encode
_decoded = json.JSONDecoder().decode


def _parsed(answer: Answer) -> dict[str, Any]:
    """The answer's JSON object. A page of a gateway's, with the status of an error, has none."""
    checksum = answer.header(b"x-amz-crc32")
    if checksum and checksum != b"%d" % crc32(answer.body):
        raise ChecksumError
    try:
        text = answer.body.decode()
        parsed = _decoded(text)
        if '"B' in text:
            _decode_binary(parsed)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        return parsed
    if answer.status == 200:
        raise ResponseParserError
    return {}


def _decode_binary(value: Any) -> None:
    """Replace the text of binary attribute values, in place, by their bytes."""
    if isinstance(value, list):
        for each in value:
            _decode_binary(each)
    elif isinstance(value, dict):
        for name, content in value.items():
            if name == "B" and isinstance(content, str):
                value[name] = b64decode(content)
            elif name == "BS" and isinstance(content, list):
                value[name] = [
                    b64decode(each) if isinstance(each, str) else each for each in content
                ]
            else:
                _decode_binary(content)


def _code(answer: Answer, parsed: dict[str, Any]) -> str:
    return str(parsed.get("__type", answer.status)).partition(":")[0].rpartition("#")[2]


def _error_response(answer: Answer, parsed: dict[str, Any]) -> dict[str, Any]:
    """The `response` of botocore's error. Without a code of DynamoDB's, the status is the code."""
    error = {
        "Code": _code(answer, parsed),
        "Message": parsed.get("message", parsed.get("Message", "")),
    }
    metadata: dict[str, Any] = {"HTTPStatusCode": answer.status}
    if request_id := answer.header(b"x-amzn-requestid"):
        metadata["RequestId"] = request_id.decode("latin-1")
    facts = {name: value for name, value in parsed.items() if name != "__type"}
    return {**facts, "Error": error, "ResponseMetadata": metadata}


def _reset_after_restore(environment: Mapping[str, str], reset: Callable[[], None]) -> None:
    """Let Lambda call `reset` when it restores a snapshot of this process.

    https://docs.aws.amazon.com/lambda/latest/dg/snapstart-runtime-hooks-python.html
    """
    if environment.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    try:
        import snapshot_restore_py  # type: ignore[import-untyped]
    except ImportError:
        return
    snapshot_restore_py.register_after_restore(reset)
