"""What the page of `oncekey dev` may do to the runtime: a wrong request is refused, and told."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from oncekey_local.console.journal import Journal
from oncekey_local.console.workshop import LocalWorkshop
from tests.support.sample_service import SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of each member of each request: no value of another type is taken for one, or for none.
MISTYPED: list[Any] = [True, 1.0, [], ["acme"], {}, {"a": 1}, [[]]]


@pytest.fixture
def workshop() -> Iterator[LocalWorkshop]:
    """That of a runtime with this one process, which nobody kills."""
    loop = asyncio.new_event_loop()
    running = threading.Thread(target=loop.run_forever)
    running.start()
    process = {"role": "function", "function": "payments", "pid": os.getpid(), "busy": False}
    yield LocalWorkshop(
        SERVICE,
        loop=loop,
        url="http://127.0.0.1:1",
        servers=[Mock(role="store", url="http://127.0.0.1:1")],
        event_sources=Mock(call_now=Mock(side_effect=KeyError)),
        processes=lambda: [process],
        journal=Journal(),
        record_of=Mock(return_value=None),
    )
    loop.call_soon_threadsafe(loop.stop)
    running.join()
    loop.close()


@pytest.mark.parametrize(
    ("what", "member"),
    [
        *(("send", name) for name in ("route", "tenant", "path", "body")),
        *(("repeat", "reference"), ("kill", "pid"), ("run", "function")),
        *(("fault", "at"), ("fault", "name")),
    ],
)
@pytest.mark.parametrize("wrong", MISTYPED, ids=repr)
def test_a_member_of_another_type_is_refused(
    workshop: LocalWorkshop, what: str, member: str, wrong: object
) -> None:
    """The sentence names the member, so nothing was sent, killed or called."""
    route = next(
        f"{route.method} {route.path}"
        for function in SERVICE.functions
        for route in function.routes
        if route.method == "POST" and route.authorized
    )
    right = {"route": route, "at": "store", "name": "faults/down", "value": True}

    with pytest.raises(ValueError, match=f"{member} must be a"):
        workshop.do(what, {**right, member: wrong})
