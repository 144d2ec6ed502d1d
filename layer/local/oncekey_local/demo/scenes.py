"""The thirteen scenes, in their order."""

from __future__ import annotations

from oncekey_local.demo import plays
from oncekey_local.demo.log import DECLINED, SUCCEEDED
from oncekey_local.demo.money import called_provider, charged, refunded
from oncekey_local.demo.promises import (
    accepted,
    another_payment,
    answered,
    answered_in_all,
    ends,
    replays,
    tells_how_long_it_is_kept,
    tells_when_to_retry,
)
from oncekey_local.demo.scene import NOTHING, ONE_CHARGE, ONE_REFUND, Scene
from oncekey_local.demo.unknown_outcomes import UNKNOWN_OUTCOMES

_RUNNING = "request-in-progress"


SCENES = (
    Scene(
        title="A first call",
        about="A client wants to make a payment. It creates a random key, which it sends with "
        "every retry of this payment and with no other request. The payment is accepted at once, "
        "together with a message. A worker reads the message and charges the customer.",
        play=plays.first_call,
        due=ONE_CHARGE,
        promises=(
            accepted("first", says="the payment is accepted (202), and is found at its Location"),
            tells_how_long_it_is_kept("first"),
            ends("first", SUCCEEDED, says="soon after, it has succeeded"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The same call again",
        about="The client may not have received that answer, so it sends the same request again. "
        "It gets the first answer from the record. Nothing runs a second time.",
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
        "first payment five times at the same moment. One of the five requests runs. The others "
        "get a 409, and their retries get the answer of the first.",
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
        about="A client makes a mistake: it sends the key of the first scene with another amount. "
        "Replaying the first answer would be wrong, and so would a second charge.",
        play=plays.another_body,
        due=NOTHING,
        promises=(
            answered("misuse", 422, "key-reused", says="the request is refused (422 key-reused)"),
            charged(0, says="nothing is charged"),
        ),
    ),
    Scene(
        title="The same key, another tenant",
        about="Keys belong to their tenant. Another tenant that happens to send the same key gets "
        "its own payment, and neither tenant can see the other's payment.",
        play=plays.another_tenant,
        due=ONE_CHARGE,
        promises=(
            answered("other", 202, says="the other tenant's payment is accepted (202)"),
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
        "still in the queue, which delivers it again. The next worker resumes from the record. It "
        "calls the provider with the same key, so the provider repeats its answer and not the "
        "charge.",
        play=plays.worker_killed,
        due=ONE_CHARGE,
        promises=(
            accepted("call", says="the payment is accepted (202)"),
            replays("retry", "call", status=202, says="the client's retry gets that, replayed"),
            ends("call", SUCCEEDED, says="the payment succeeds without any intervention"),
            called_provider(2, says="the provider was called twice"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    *UNKNOWN_OUTCOMES,
    Scene(
        title="The answer to a charge is lost",
        about="The provider charges the customer, but its answer never arrives. The queue delivers "
        "the message again, and the worker calls the provider with the same key. So the provider "
        "recognises the charge and repeats its answer.",
        play=plays.lost_charge_answer,
        due=ONE_CHARGE,
        promises=(
            accepted("call", says="the payment is accepted (202)"),
            ends("call", SUCCEEDED, says="it succeeds, and the client notices nothing"),
            called_provider(2, says="the provider was called twice"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The answer to a reservation is lost",
        about="The key is reserved in the store, but the store's answer never arrives. The service "
        "writes again, finds that its own first write has reserved the key, and continues.",
        play=plays.lost_reserve_answer,
        due=ONE_CHARGE,
        promises=(
            accepted("call", says="the payment is accepted (202), and the client notices nothing"),
            ends("call", SUCCEEDED, says="it succeeds"),
            called_provider(1, says="the provider was called once"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The store goes away, and comes back",
        about="Without its store, the service cannot know whether a request ran before. So it does "
        "nothing and answers 503. The same key works when the store is back.",
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
            accepted("retry", says="the payment of the retry is accepted (202)"),
            ends("retry", SUCCEEDED, says="it succeeds"),
            called_provider(1, says="the provider was called once"),
            charged(1, says="the customer is charged once"),
        ),
    ),
    Scene(
        title="The card is declined",
        about="A declined payment is final, too. A retry with the same key does not try the card "
        "again. To try again, the client sends a new key.",
        play=plays.declined,
        due=NOTHING,
        promises=(
            accepted("first", says="the payment is accepted (202)"),
            ends("first", DECLINED, says="soon after, it is declined"),
            replays("retry", "first", status=202, says="the retry gets the first answer, replayed"),
            called_provider(1, says="the card was tried once"),
            charged(0, surplus="a charge after the decline", says="nothing is charged"),
        ),
    ),
)
