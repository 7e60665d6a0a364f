"""dsh: an agent harness with a tiny core."""

__version__ = "0.1.0"
