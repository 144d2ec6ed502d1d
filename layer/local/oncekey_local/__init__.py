"""The service on one machine: `oncekey dev`, `oncekey demo`, and the typed description they read.

Nothing in here ships in the Lambda layer.
"""
