"""The operator's tools: what is in the tables of a deployment, and the actions on it."""
