"""Every log line, one function an event. Never a key, a payload or an answer."""
