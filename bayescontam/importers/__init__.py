"""Readers that turn files of other programs into this package's tables."""
