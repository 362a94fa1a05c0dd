"""Importers: logs of evaluation tools to tables of responses."""
