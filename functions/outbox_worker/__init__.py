"""The worker function: it charges payments, runs jobs and handles the provider's events."""
