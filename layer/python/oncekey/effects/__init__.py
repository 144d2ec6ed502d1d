"""What `op` does in a handler: business writes, messages, steps, commits."""
