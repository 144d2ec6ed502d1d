"""HTTP requests and answers: the decorator, the key, the fingerprint, the presets."""
