"""The worker: charges payments that were taken on, and does what was accepted for later."""
