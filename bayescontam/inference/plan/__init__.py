"""Plan: how large a study must be, by fast simulation."""
