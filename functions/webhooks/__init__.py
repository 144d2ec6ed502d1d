"""The webhooks function: it accepts the provider's events about payments and refunds."""
