"""Estimates of new models from the draws of a fit, by importance sampling."""
