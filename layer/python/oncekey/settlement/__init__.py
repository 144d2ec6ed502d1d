"""Settling unknown operations: by resolvers, and from outside by webhooks or people."""
