"""The scope of a request that runs unprotected: no route that needs a key may run in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    Scope = MutableMapping[str, Any]

# Routers of Starlette and FastAPI set this member just before they run a route.
_ENDPOINT = "endpoint"


class UnprotectedScope(dict[str, Any]):
    """The scope of a request that was passed on without a key.

    If an app inside has changed the request, `check` is called with this scope before a route runs.
    It raises if the route needs a key. A plain copy of this scope is not checked.
    """

    def __init__(self, scope: Scope, check: Callable[[Scope], None]) -> None:
        super().__init__(scope)
        self._check = check
        self._judged = self._request()

    def __setitem__(self, name: str, value: Any, /) -> None:
        """Set a member."""
        self.update({name: value})

    def update(self, *args: Any, **more: Any) -> None:
        """Set members."""
        members = dict(*args, **more)
        if _ENDPOINT in members and self._request() != self._judged:
            self._check(self)
        super().update(members)

    def _request(self) -> tuple[object, ...]:
        # The headers as they are now: an app may change the list itself.
        return self["method"], self["path"], tuple(self.get("headers", ()))
