"""What the tests of all first-party plugins share."""

import untimed  # noqa: F401 - settings of property tests
