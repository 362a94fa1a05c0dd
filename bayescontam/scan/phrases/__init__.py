"""Phrases: what a generated benchmark and its corpus are made of."""
