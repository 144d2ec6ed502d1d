"""Event sources: queues, streams and schedules that call functions, as Lambda's pollers do."""
