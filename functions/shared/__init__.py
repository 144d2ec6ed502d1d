"""The code that the functions share: settings, messages, answers, tables, the provider."""
