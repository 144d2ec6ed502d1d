"""Settings of all unit tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes is the machine's affair; a slow one is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
