"""Quotas: how many new and active keys a tenant may have, and how often it may repeat them."""
