"""Models trained with known contamination, and the truth from their clean twins."""
