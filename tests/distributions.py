"""Tiny distributions on disk: metadata and a module, as pip leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def distribution(
    folder: Path,
    name: str,
    entry_points: Mapping[str, str],
    *,
    version: str = "1.0",
    **modules: str,
) -> Path:
    """Write a distribution with plugins (`name → module:object`) and its modules; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    lines = [f"{plugin} = {target}" for plugin, target in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[dsh]", *lines, ""]), encoding="utf-8")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    return info
