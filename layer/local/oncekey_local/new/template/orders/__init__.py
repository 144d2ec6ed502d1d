"""The functions of the service."""
