"""Report: tables, pictures and one HTML page of a fit."""
