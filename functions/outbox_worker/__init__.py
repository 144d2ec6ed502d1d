"""The worker: charges the payments that were taken on, one message each."""
