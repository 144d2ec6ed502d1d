"""The scenes of two refunds whose outcome is unknown, and of who settles them."""

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
        about="Refunds are not recorded step by step: when their process dies on the way, nobody "
        "here can know whether the money will move. Two die, one of which the provider makes and "
        "the other not; from here they look the same. First the dead requests still count as "
        "running; when their time is over, their outcome is unknown, and nobody may try again, "
        "however often the client asks.",
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
        about="A provider tells what it has done in events of its own, which were held up until "
        "now. It sends them at least once, so here each comes twice, and the newest first. The one "
        "about the refund brings back the reference that the dead process had given it: that "
        "settles the request. Of the other refund no event tells, because there is none.",
        play=plays.provider_tells,
        due=NOTHING,
        promises=(
            tells_of_what_was_made(
                "told", says="the client gets the answer that it never got (201, the refund made)"
            ),
            answered("untold", 409, _UNKNOWN, says=f"the other is still unknown ({_UNKNOWN})"),
            refunded(0, says="nothing more is given back"),
        ),
    ),
    Scene(
        title="The reconciler asks about the other",
        about="Each minute the clock calls the reconciler, which asks the provider about whatever "
        "is unknown; here it is called at once. The provider has no such refund, and the call of "
        "the dead process can arrive no more: so nothing has happened, and the same key may run.",
        play=plays.reconciler_asks,
        due=ONE_REFUND,
        promises=(
            answered("first", 201, says="the client's next retry makes the refund (201)"),
            replays(
                "retry", "first", status=201, says="the one after that gets the same, replayed"
            ),
            refunded(1, says="it is given back once"),
        ),
    ),
)
