"""Expected precision of a design, and the smallest that suffices."""
