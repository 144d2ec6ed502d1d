"""A call that was on its way when its sender died: what the grace is for, and where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Settlement, settle
from oncekey.record.record import Status
from tests.support.protected import is_replay
from tests.support.reconciled import GRACE_MS, PAID, Unrecorded, knows, reconciles
from tests.support.steps import LEASE_MS, POST, Steps, finds, step

if TYPE_CHECKING:
    from oncekey import Operation

pytestmark = pytest.mark.usefixtures("no_resolvers")


class HeldProvider:
    """A provider that calls reach late. If it `keeps_keys` a second call with one is refused."""

    def __init__(self, *, keeps_keys: bool) -> None:
        self.charges: list[str] = []
        self.under_way: list[str] = []
        self._keeps_keys = keeps_keys

    def charge(self, key: str) -> None:
        """A call arrives."""
        if not (self._keeps_keys and key in self.charges):
            self.charges.append(key)

    def arrives(self) -> None:
        """What was under way arrives."""
        while self.under_way:
            self.charge(self.under_way.pop())

    def what_became_of_it(self) -> Completed | NotExecuted:
        """What the provider truthfully says now."""
        return Completed(PAID) if self.charges else NotExecuted()


def killed_while_it_calls(provider: HeldProvider) -> Unrecorded:
    """A service whose process was killed after it had sent its call, which is held on the way."""
    service = Unrecorded()

    def sends(_service: Steps, op: Operation) -> None:
        provider.under_way.append(op.downstream_key("charge"))

    service.dies(sends)
    return service


def retries(service: Unrecorded, provider: HeldProvider) -> Any:
    """The client's retry, whose call arrives at once."""
    return service.sends(lambda _, op: provider.charge(op.downstream_key("charge")))


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("keeps_keys", [False, True], ids=["no keys", "keys"])
def test_a_call_that_arrives_within_the_grace_is_found(keeps_keys: bool) -> None:
    """Nobody is asked before lease and grace are over: the call that arrives at the last moment is
    found, and the client's retry gets its answer. One charge, also of a provider without keys.

    Red when a resolver is asked, or `NotExecuted` believed, before the grace is over.
    """
    provider = HeldProvider(keeps_keys=keeps_keys)
    service = killed_while_it_calls(provider)
    asked = knows(lambda: provider.what_became_of_it())  # noqa: PLW0108 -- a function is called

    service.clock.advance(LEASE_MS + GRACE_MS)
    reconciles(service, waits=False)
    said = settle(
        service.runs[0].reference,
        NotExecuted(),
        found_at_ms=service.clock.now_ms(),
        store=service.store,
        clock=service.clock,
    )
    assert (asked, said, service.record.status) == ([], Settlement.TOO_EARLY, Status.UNKNOWN)
    assert service.send(POST)["statusCode"] == 409
    provider.arrives()
    service.clock.advance(1)
    reconciles(service, waits=False)

    assert is_replay(retries(service, provider))
    assert len(provider.charges) == 1


@pytest.mark.parametrize(
    ("keeps_keys", "charges"), [(False, 2), (True, 1)], ids=["no keys", "keys"]
)
def test_without_the_grace_a_late_call_charges_twice_unless_its_key_is_kept(
    keeps_keys: bool, charges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no grace the resolver truthfully says that nothing has happened while the call is still
    on its way: the retry pays, the call arrives, and both count. This is what the grace exists for;
    beyond it the downstream key, the same over both attempts, stops the second at the provider.
    """
    monkeypatch.setenv("ONCEKEY_RECONCILE_GRACE_MS", "0")
    provider = HeldProvider(keeps_keys=keeps_keys)
    service = killed_while_it_calls(provider)
    knows(lambda: provider.what_became_of_it())  # noqa: PLW0108 -- a function is called
    service.clock.advance(LEASE_MS + 1)

    assert reconciles(service, waits=False).settled == 1
    assert retries(service, provider)["statusCode"] == 201
    provider.arrives()

    assert len(provider.charges) == charges
    assert len(set(provider.charges)) == 1


@pytest.mark.parametrize(("grace_ms", "charges"), [(GRACE_MS, 1), (0, 2)], ids=["grace", "none"])
def test_a_step_is_asked_about_after_the_grace_alone(
    grace_ms: int, charges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded step whose call is late is found within the grace, and runs twice without one."""
    monkeypatch.setenv("ONCEKEY_RECONCILE_GRACE_MS", str(grace_ms))
    provider = HeldProvider(keeps_keys=False)
    service = Steps()

    def is_killed(_service: Steps) -> None:
        provider.under_way.append("charge")
        service.store.is_dead = True

    service.dies(step("charge", then=is_killed))
    asked = finds(lambda: Completed("c-1") if provider.charges else NotExecuted())
    service.clock.advance(LEASE_MS + 1)
    reconciles(service, waits=False)
    assert len(asked) == (0 if grace_ms else 1)
    if grace_ms:
        # The call arrives at the last moment of the grace.
        service.clock.advance(grace_ms - 1)
        provider.arrives()
        service.clock.advance(1)
        reconciles(service, waits=False)

    service.sends(step("charge", then=lambda _service: provider.charge("charge")))
    provider.arrives()

    assert len(provider.charges) == charges
