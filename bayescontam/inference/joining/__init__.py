"""Joining: a model that was not in a fit, judged by what the fit has learnt."""
