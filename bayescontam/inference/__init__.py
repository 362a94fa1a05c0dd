"""Model spec and tables to a judged fit."""
