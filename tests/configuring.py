"""Loading a configuration in tests: text in, `HarnessConfig` or the refusal out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dsh_core.config.model import HarnessConfig
from dsh_core.errors import ConfigError

Load = Callable[..., HarnessConfig]
"""The fixture `load`: a project file's text, and `load_config`'s options."""


def refused(load: Load, *arguments: Any, **keywords: Any) -> ConfigError:
    """Load what must be refused, and return the refusal."""
    with pytest.raises(ConfigError) as caught:
        load(*arguments, **keywords)
    return caught.value
