"""A payment provider for one machine: the part of Stripe's HTTP API that a payment service uses.

It runs in its own process (`python -m oncekey_local.provider`), keeps its state in memory,
remembers idempotency keys like Stripe, and can be told to be slow, to fail, to lose an answer or to
let a call arrive late:

    POST /_faults  {"delay_ms": 0, "fail": 0, "lose_answer": 0, "decline": 0, "hold": false}
    GET  /_faults  what is armed
    GET  /_state   {"held": 0, "calls": 0, "charges": 0, "refunds": 0}
    POST /_wait    {"held": 1, "timeout_ms": 1000}: 200 once so many calls are held, else 408
    POST /_finish  {"decline": false}: ends the charges that are processing
    POST /_webhooks {"hold": false, "copies": 1, "newest_first": false}: how events are sent;
                   without a hold, 200 once every event so far is delivered or given up
    GET  /_webhooks the same, with how many wait and what became of the others
    POST /_reset   forget everything

`Faults` says what each fault does. Given `--webhook-url`, it tells there of what it does, as Stripe
would: signed, at least once, and for some twenty seconds where nobody takes an event. Any key that
starts with `sk_test_` opens the API under `/v1`.
"""

# What it prints when it listens, before its address.
READY = "oncekey provider: listening on "
