"""Calibration: many simulated fits, and what they show about the intervals."""
