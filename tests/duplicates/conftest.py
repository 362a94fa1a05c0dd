"""The misbehaving endpoint, for steps of a model."""

from tests.support.endpoints import server, short_waits

__all__ = ["server", "short_waits"]
