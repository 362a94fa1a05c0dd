"""Synthetic semantic duplicates of benchmark items: made, and checked."""
