"""Calibration: many simulated fits, and what they say of the intervals."""
