"""The flow of a protected call: reserve, run, record how it ended, answer; or accept for later."""
