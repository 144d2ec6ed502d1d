"""The ledger comparison: once a day, our payments and refunds against the provider's."""
