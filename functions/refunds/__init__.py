"""The refunds function: `POST /refunds` gives money back once, by calling the provider inline."""
