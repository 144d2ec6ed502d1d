"""The webhooks function: takes on what the provider tells of payments and refunds."""
