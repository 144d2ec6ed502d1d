"""A protected handler under a quota, and requests of several tenants with several keys."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from oncekey import Quota, jwt_claim
from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request
from oncekey.record.identity import Identity
from oncekey.record.record import Effects
from oncekey.settings import Settings
from tests.support.events import load, with_key, with_tenant
from tests.support.protected import Answer, Protected, headers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.store.store import Store
    from tests.support.events import Event

POST = load("apigw_http_v2_post")
MINUTE = timedelta(minutes=1)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
# The clock of tests begins 20 s into a minute.
LEFT_OF_THE_MINUTE_S = 40
# Whose clock nothing runs out on.
FAR_MS = 10**15


def request(key: object, tenant: str = "acme") -> Event:
    """A request under a key of this tenant."""
    return with_key(with_tenant(POST, tenant), f"the-key-of-a-request-{key}")


class Metered(Protected):
    """A handler under a quota, whose callers are tenants by their token."""

    def __init__(self, *, store: Store | None = None, **options: Any) -> None:
        limits = {name: options.pop(name) for name in _LIMITS & set(options)}
        options = {"tenant": jwt_claim("tenant_id"), **options}
        super().__init__(store=store, quota=Quota(**limits), **options)

    def ask(self, key: object, tenant: str = "acme") -> Answer:
        """One request under this key."""
        return self.send(request(key, tenant))

    def statuses(self, *keys: object, tenant: str = "acme") -> list[int]:
        """The statuses of one request under each of these keys."""
        return [self.ask(key, tenant)["statusCode"] for key in keys]

    @property
    def counts(self) -> list[int]:
        """What the counters in the memory store stand at."""
        return sorted(counter.count for counter in self.store.counters.values())


_LIMITS = {"new_keys", "active_keys", "lookups", "window", "scope", "shards"}


def retry_after_s(answer: Mapping[str, Any]) -> int:
    """What its header says."""
    return int(headers_of(dict(answer))["retry-after"])


def keyed_request(
    key: str = "a-key-of-sixteen",
    tenant: str = "acme",
    quota: Quota = Quota(new_keys=1),  # noqa: B008 -- it is immutable
    settings: Settings = Settings(),  # noqa: B008 -- as above
    **fields: Any,
) -> Request:
    """A request under a quota of one new key."""
    made: dict[str, Any] = {
        "identity": Identity(tenant=tenant, operation="POST /payments", key=key),
        "fingerprint": "f1:same",
        "options": OperationOptions(effects=Effects.UNRECORDED, settings=settings, quota=quota),
        "deadline_ms": FAR_MS,
        **fields,
    }
    return Request(**made)
