"""The thirteen scenes, in their order."""

from __future__ import annotations

from oncekey_local.demo import plays
from oncekey_local.demo.log import DECLINED, SUCCEEDED
from oncekey_local.demo.money import called_provider, charged, refunded
from oncekey_local.demo.promises import (
    another_payment,
    answered,
    answered_in_all,
    ends,
    replays,
    taken_on,
    tells_how_long_it_is_kept,
    tells_when_to_retry,
)
from oncekey_local.demo.scene import NOTHING, ONE_CHARGE, ONE_REFUND, Scene
from oncekey_local.demo.unknown_outcomes import UNKNOWN_OUTCOMES

_RUNNING = "request-in-progress"


SCENES = (
    Scene(
        title="A first call",
        about="A client wants a payment made. It makes up a random key for it, which it will send "
        "with every retry of this payment and with nothing else. The payment is taken on at once, "
        "together with a message that has it charged; a worker does that.",
        play=plays.first_call,
        due=ONE_CHARGE,
        promises=(
            taken_on("first", says="the payment is taken on (202), and is found at its Location"),
            tells_how_long_it_is_kept("first"),
            ends("first", SUCCEEDED, says="soon after, it has succeeded"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The same call again",
        about="The client never saw that answer, perhaps, so it sends the same again. It gets the "
        "first answer, out of the record: nothing runs a second time.",
        play=plays.replay,
        due=NOTHING,
        promises=(
            replays("retry", "first", status=202, says="the same answer, byte for byte, replayed"),
            charged(0, says="nothing is charged for the retry"),
        ),
    ),
    Scene(
        title="Five at once",
        about="Refunds are made within the request. An impatient client sends one refund of the "
        "first payment five times at the same moment. One of the five gets to run; the others are "
        "told to come back, and find its answer when they do.",
        play=plays.five_at_once,
        due=ONE_REFUND,
        promises=(
            answered_in_all("race", {201: 1, 409: 4}, says="one of the five runs (201), four wait"),
            tells_when_to_retry(
                "race", 409, _RUNNING, says=f"the four are told when to come back ({_RUNNING})"
            ),
            replays("retry", "race", status=201, says="their retries get the one answer, replayed"),
            refunded(1, says="all nine requests make one refund"),
        ),
    ),
    Scene(
        title="Another payment under a used key",
        about="A mistake in the client: the key of the first scene, but another amount. To replay "
        "the first answer would be wrong, and so would a second charge.",
        play=plays.another_body,
        due=NOTHING,
        promises=(
            answered("misuse", 422, "key-reused", says="the request is refused (422 key-reused)"),
            charged(0, says="nothing is charged"),
        ),
    ),
    Scene(
        title="The same key, another tenant",
        about="Keys belong to their tenant. Another one who happens to send the same key gets a "
        "payment of its own, and neither can see the other's.",
        play=plays.another_tenant,
        due=ONE_CHARGE,
        promises=(
            answered("other", 202, says="the other tenant's payment is taken on (202)"),
            another_payment("other", "first", says="it is a payment of its own"),
            ends("other", SUCCEEDED, says="it succeeds"),
            answered("own", 200, says="its owner can read it"),
            answered("foreign", 404, says="neither tenant can read the other's (404)"),
            charged(1, says="the other tenant's customer is charged once"),
        ),
    ),
    Scene(
        title="The worker is killed during a charge",
        about="The worker dies while its charge is on the way to the provider. The message is "
        "still in the queue, which delivers it again; the next worker finds on record how far the "
        "dead one was, and goes on. It asks under the same key, so the provider repeats its answer "
        "instead of the charge.",
        play=plays.worker_killed,
        due=ONE_CHARGE,
        promises=(
            taken_on("call", says="the payment is taken on (202)"),
            replays("retry", "call", status=202, says="the client's retry gets that, replayed"),
            ends("call", SUCCEEDED, says="the payment succeeds, and nobody had to look into it"),
            called_provider(2, says="the provider was asked twice"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    *UNKNOWN_OUTCOMES,
    Scene(
        title="The answer to a charge is lost",
        about="The provider takes the money, but its answer never arrives. When the queue delivers "
        "the message again, the worker asks again under the same key, so that the provider knows "
        "the charge and repeats its answer.",
        play=plays.lost_charge_answer,
        due=ONE_CHARGE,
        promises=(
            taken_on("call", says="the payment is taken on (202)"),
            ends("call", SUCCEEDED, says="it succeeds, and the client notices nothing"),
            called_provider(2, says="the provider was asked twice"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The answer to a reservation is lost",
        about="The key is reserved in the store, but the store's answer never arrives. The service "
        "asks again, finds the key taken by its own first write, and goes on.",
        play=plays.lost_reserve_answer,
        due=ONE_CHARGE,
        promises=(
            taken_on("call", says="the payment is taken on (202), and the client notices nothing"),
            ends("call", SUCCEEDED, says="it succeeds"),
            called_provider(1, says="the provider was asked once"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The store goes away, and comes back",
        about="Without its store the service cannot know whether a request ran before. So it does "
        "nothing, and says so; the same key works when the store is back.",
        play=plays.store_gone,
        due=ONE_CHARGE,
        promises=(
            answered(
                "down",
                503,
                "store-unavailable",
                says="the request is refused (503 store-unavailable)",
            ),
            tells_when_to_retry(
                "down",
                503,
                "store-unavailable",
                says="the refusal says when to try again (Retry-After)",
            ),
            taken_on("retry", says="the retry has the payment taken on (202)"),
            ends("retry", SUCCEEDED, says="it succeeds"),
            called_provider(1, says="the provider was asked once"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The card is declined",
        about="A no is an end too: the payment is declined, and stays so. A retry does not try the "
        "card again behind the client's back; that takes a new key.",
        play=plays.declined,
        due=NOTHING,
        promises=(
            taken_on("first", says="the payment is taken on (202)"),
            ends("first", DECLINED, says="soon after, it is declined"),
            replays("retry", "first", status=202, says="the retry gets the first answer, replayed"),
            called_provider(1, says="the card was tried once"),
            charged(0, surplus="a charge after the decline", says="nothing is charged"),
        ),
    ),
)
