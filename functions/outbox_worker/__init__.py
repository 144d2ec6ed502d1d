"""The worker: charges payments, and does what was accepted for later or what events ask for."""
