"""The canary: it pays as a client does, and fails if the API does not keep its promise."""
