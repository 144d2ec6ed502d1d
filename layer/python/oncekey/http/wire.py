"""The headers and media types of the contract, spelt as they are sent."""

from __future__ import annotations

KEY = "Idempotency-Key"
FIRST_SENT = "Repeatability-First-Sent"
EXPIRES = "Idempotency-Expires"
REPLAYED = "Idempotent-Replayed"
RETRY_AFTER = "Retry-After"
# Stripe's, with the STRIPE preset.
SHOULD_RETRY = "Stripe-Should-Retry"

JSON = "application/json"
PROBLEM = "application/problem+json"
