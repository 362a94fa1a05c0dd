"""Scan: corpus to matches."""
