"""Settling what is unknown: resolvers, and who knows from outside."""
