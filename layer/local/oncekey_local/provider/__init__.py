"""A payment provider for one machine: the part of Stripe's HTTP API that a payment service uses.

It runs in its own process (`python -m oncekey_local.provider`), keeps its state in memory and
remembers idempotency keys like Stripe. It can be set to be slow, to fail, to lose an answer or to
let a call arrive late:

    POST /_faults  {"delay_ms": 0, "fail": 0, "lose_answer": 0, "decline": 0, "hold": false}
    GET  /_faults  the present faults
    GET  /_state   {"held": 0, "calls": 0, "charges": 0, "refunds": 0}
    POST /_wait    {"held": 1, "timeout_ms": 1000}: 200 once this many calls are held, else 408
    POST /_finish  {"decline": false}: ends the charges that are processing
    POST /_webhooks {"hold": false, "copies": 1, "newest_first": false}: how events are sent;
                   without a hold, 200 once every event so far is delivered or given up
    GET  /_webhooks the same, with how many wait, and how many deliveries succeeded or were given up
    POST /_reset   forget everything

`Faults` describes each fault. With `--webhook-url`, the provider sends events as Stripe does:
signed and at least once. It tries for about twenty seconds if nobody accepts an event. Any key that
starts with `sk_test_` opens the API under `/v1`.
"""

# It prints this before its address, once it listens.
READY = "oncekey provider: listening on "
