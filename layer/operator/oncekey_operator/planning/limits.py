"""What the layer takes at most. Apart, so that a command line is read without the layer."""

from __future__ import annotations

# Of ONCEKEY_DUE_SHARDS, and of the `shards` of a Quota.
MOST_DUE_SHARDS = 1_000
MOST_QUOTA_SHARDS = 64
