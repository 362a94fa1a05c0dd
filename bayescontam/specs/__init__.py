"""Specs: strict TOML files read into frozen objects."""
