"""Values as text and back: canonical JSON for fingerprints, and results of every kind."""
