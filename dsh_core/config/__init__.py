"""Configuration: one precedence list, from YAML files to the command line.

Here are the data a harness is told; `dsh_core.config.load` makes them from files and imports yaml
and pydantic, which this package does not.
"""

from __future__ import annotations

from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer

__all__ = ["AgentDefinition", "HarnessConfig", "Layer"]
