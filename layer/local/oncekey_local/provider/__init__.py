"""A payment provider for one machine: the part of Stripe's HTTP API that a payment service uses.

It runs in its own process (`python -m oncekey_local.provider`), keeps its state in memory,
remembers idempotency keys like Stripe, and can be told to be slow, to fail, to lose an answer or to
let a call arrive late.
"""
