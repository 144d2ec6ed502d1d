"""What the functions have in common: settings, answers, the payments table, the provider."""
