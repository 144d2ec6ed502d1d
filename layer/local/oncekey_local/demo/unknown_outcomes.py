"""The scenes of two refunds with an unknown outcome, and of their settlement."""

from __future__ import annotations

from oncekey_local.demo import plays
from oncekey_local.demo.money import refunded
from oncekey_local.demo.promises import (
    answered,
    replays,
    tells_of_what_was_made,
    tells_when_to_retry,
)
from oncekey_local.demo.scene import NOTHING, ONE_REFUND, Scene

_RUNNING = "request-in-progress"
_UNKNOWN = "outcome-unknown"

UNKNOWN_OUTCOMES = (
    Scene(
        title="Two refunds die on the way",
        about="The steps of refunds are not recorded. If the process dies during a refund, the "
        "service cannot know whether the money will move. Two refunds are interrupted. The "
        "provider makes one of them and not the other; the service sees no difference. At first "
        "both requests still count as running. When their leases end, their outcome is unknown, "
        "and no retry runs.",
        play=plays.refunds_killed,
        due=ONE_REFUND,
        promises=(
            answered("killed", 500, says="the clients of the dead processes get a 500"),
            answered("early", 409, _RUNNING, says=f"a retry before their time is over: {_RUNNING}"),
            answered("late", 409, _UNKNOWN, says=f"every retry after that: {_UNKNOWN}"),
            tells_when_to_retry(
                "late", 409, _UNKNOWN, says="those answers say when to ask again (Retry-After)"
            ),
            refunded(1, says="one refund, which arrived late; no retry makes another"),
        ),
    ),
    Scene(
        title="The provider tells of one of them",
        about="The provider reports what it has done in events, which were held back until now. It "
        "sends events at least once, so here each is sent twice, the newest first. The event of "
        "the refund contains the reference that the dead process had sent: this settles the "
        "request. There is no event for the other refund, because it was never made.",
        play=plays.provider_tells,
        due=NOTHING,
        promises=(
            tells_of_what_was_made(
                "told", says="the client gets the answer that was lost (201, the refund made)"
            ),
            answered("untold", 409, _UNKNOWN, says=f"the other is still unknown ({_UNKNOWN})"),
            refunded(0, says="nothing more is refunded"),
        ),
    ),
    Scene(
        title="The reconciler asks about the other",
        about="Each minute a schedule calls the reconciler, which asks the provider about unknown "
        "outcomes. Here it is called at once. The provider has no such refund, and the dead "
        "process's call can no longer arrive. So nothing has happened, and the same key may run.",
        play=plays.reconciler_asks,
        due=ONE_REFUND,
        promises=(
            answered("first", 201, says="the client's next retry makes the refund (201)"),
            replays(
                "retry", "first", status=201, says="the retry after that gets the same, replayed"
            ),
            refunded(1, says="the money is refunded once"),
        ),
    ),
)
