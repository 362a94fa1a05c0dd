"""Tests, laid out like the package."""

from hypothesis import settings

# The first example of a test pays for imports: a deadline would fail it by chance.
settings.register_profile("bayescontam", deadline=None)
settings.load_profile("bayescontam")
