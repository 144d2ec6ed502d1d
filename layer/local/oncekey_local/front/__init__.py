"""The HTTP front: what API Gateway does between a client and a function."""
