"""Property tests have no deadline: what a machine under load takes says nothing about the code."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
