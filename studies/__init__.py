"""Analyses of published studies: a script for each, beside the TOML file of its settings.

A script has a function `analyse`, which is given a `Study` and returns `Findings`; run it with
``bayescontam study run NAME --out DIR``. The key ``analysis`` of the TOML file names it. Scripts
import each other by relative names, because the folder lies inside an installed package and
beside it in a checkout.
"""
