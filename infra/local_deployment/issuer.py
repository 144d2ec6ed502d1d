"""The issuer of the callers' tokens, on the loopback address, for an emulator's API.

A real JWT authorizer looks keys up at the issuer, so there has to be one. Its key is drawn anew for
each run, and opens nothing else.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from oncekey_local.processes import LOOPBACK

AUDIENCE = "oncekey-local"
_ALGORITHM = "RS256"
_KEYS_PATH = "/.well-known/jwks.json"
_LIFETIME = timedelta(hours=1)


class Issuer:
    """An issuer, from its creation to the end of the `with` block.

    Attributes:
        url: What stands as `iss` in its tokens, and where its key is found.
    """

    def __init__(self) -> None:
        self._key = _new_key()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/"
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        _Handler.documents = {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url.rstrip('/')}{_KEYS_PATH}",
            },
            _KEYS_PATH: {"keys": [{**public, "kid": "1", "use": "sig", "alg": _ALGORITHM}]},
        }
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(self, tenant: str) -> str:
        """A token that the API must accept."""
        return self._signed(tenant, self._key)

    def wrong_tokens(self, tenant: str) -> dict[str, str | None]:
        """Tokens that the API must refuse, by what is wrong with them; None is no token at all."""
        return {
            "missing": None,
            "forged": self._signed(tenant, _new_key()),
            "expired": self._signed(tenant, self._key, lifetime=-_LIFETIME),
            "for somebody else": self._signed(tenant, self._key, audience="another"),
        }

    def _signed(
        self,
        tenant: str,
        key: rsa.RSAPrivateKey,
        *,
        lifetime: timedelta = _LIFETIME,
        audience: str = AUDIENCE,
    ) -> str:
        now = datetime.now(tz=UTC)
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": audience,
            "sub": "user_1",
            "tenant_id": tenant,
            "iat": now,
            "exp": now + lifetime,
        }
        return jwt.encode(claims, key, algorithm=_ALGORITHM, headers={"kid": "1"})


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class _Handler(BaseHTTPRequestHandler):
    documents: dict[str, dict[str, Any]]

    def do_GET(self) -> None:
        """Show a document, or none."""
        document = self.documents.get(self.path)
        body = json.dumps(document).encode()
        self.send_response(200 if document else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class's name
        """Say nothing: standard error is for the person who deploys."""
