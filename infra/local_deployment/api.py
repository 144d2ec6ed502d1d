"""The deployed API as a client calls it: over HTTP, or by the events that it would send."""

from __future__ import annotations

import contextlib
import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from infra.service import SERVICE
from oncekey_local.front import http_api_response
from oncekey_local.front.http_api_event import HttpRequest, Reception, event
from oncekey_local.front.routing import Router
from oncekey_local.identifiers import new_id, now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.local_deployment.deployed_functions import DeployedFunctions
    from infra.local_deployment.issuer import Issuer

TENANT = "acme"
# A cold start on a busy machine.
_PATIENCE_S = 120


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, its headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Api(Protocol):
    """Whatever answers the requests of tenant `TENANT`."""

    def post(self, path: str, body: object, *, key: str) -> Answer:
        """Send this body under this Idempotency-Key."""
        ...

    def get(self, path: str) -> Answer:
        """Read."""
        ...


class HttpApi:
    """The API over HTTP, at the address that its stack puts out."""

    def __init__(self, url: str, server: str, issuer: Issuer) -> None:
        # A name below "localhost", which not every resolver knows: the server is asked by its
        # address, for the host of that name.
        self._host = urlsplit(url).netloc
        self._server = urlsplit(server).netloc
        self._issuer = issuer

    def post(self, path: str, body: object, *, key: str) -> Answer:
        """Send this body under this Idempotency-Key."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        token = self._issuer.token(TENANT)
        return self.send("POST", path, token, headers, json.dumps(body).encode())

    def get(self, path: str) -> Answer:
        """Read."""
        return self.send("GET", path, self._issuer.token(TENANT))

    def send(
        self,
        method: str,
        path: str,
        token: str | None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request with any token, or none."""
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        connection = http.client.HTTPConnection(self._server, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            sent = {"Host": self._host, **authorization, **(headers or {})}
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            return Answer(
                status=response.status,
                headers={name.lower(): value for name, value in response.getheaders()},
                body=response.read(),
            )


class EventApi:
    """A stand-in for the API in a cloud without one: it sends events to the functions."""

    def __init__(self, functions: DeployedFunctions) -> None:
        self._functions = functions
        self._router = Router(SERVICE)

    def post(self, path: str, body: object, *, key: str) -> Answer:
        """Send this body under this Idempotency-Key."""
        headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)]
        return self._send("POST", path, headers, json.dumps(body).encode())

    def get(self, path: str) -> Answer:
        """Read."""
        return self._send("GET", path, [], b"")

    def _send(self, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        match = self._router.match(method, path)
        assert match is not None
        request = HttpRequest(
            method=method,
            raw_path=path,
            raw_query="",
            protocol="HTTP/1.1",
            headers=headers,
            body=body,
            source_ip="127.0.0.1",
        )
        reception = Reception(
            route_key=match.route.key,
            path_parameters=match.parameters,
            claims={"sub": "user_1", "tenant_id": TENANT},
            request_id=new_id(),
            time_ms=now_ms(),
            domain_name="localhost",
        )
        result = self._functions.invoke(match.function.name, event(request, reception))
        answer = http_api_response.response(json.dumps(result).encode())
        headers_of_it = {name.lower(): value for name, value in answer.headers}
        return Answer(status=answer.status, headers=headers_of_it, body=answer.body)
