"""The flow of a protected call: reserve the key, run, record the end, answer; or accept a job."""
