"""How much of a benchmark score is genuine ability, how much is contamination."""
