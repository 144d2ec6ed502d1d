"""Flows: their commands, the drivers that carry the commands out, and the retries."""
