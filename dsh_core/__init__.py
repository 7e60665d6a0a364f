"""dsh: an agent harness with a tiny core."""
