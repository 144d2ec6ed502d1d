"""Every log line, one function for each event. None contains a key, a payload or an answer."""
