"""What the functions have in common: settings, messages, answers, tables, the provider."""
