"""Judging pairs by a language model behind any OpenAI-compatible endpoint."""
