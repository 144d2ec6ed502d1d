"""Reading records: one by its key or id, or many by their state."""
