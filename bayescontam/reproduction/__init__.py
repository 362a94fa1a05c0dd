"""Reproduction: published studies done again, and set beside what was printed."""
