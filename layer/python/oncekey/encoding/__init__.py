"""Values as text, and back: canonical JSON for fingerprints, results of every kind."""
