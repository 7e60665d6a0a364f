"""Writes the figures of a run into a Markdown page, between two markers; see docs/performance.md."""
from __future__ import annotations

import os, platform, re

BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"
BASE = "floor_httpx"

# What is measured, in which unit, and as a ratio to BASE: what must be reached, what is aimed at.
TARGETS = {
    "turn": ("50 tool calls in one turn", "µs per step", 1.1, 0.85),
    "stream": ("20,000 chunks back to back", "µs per chunk", 1.3, 1.0),
    "paced": ("500 chunks, 2 ms apart", "µs per chunk", 1.25, 1.05),
    "history": ("300 turns in one session", "ms in all", 1.0, 0.8),
    "parallel": ("200 agents × 5 tool calls", "ms per agent", 0.7, 0.45),
    "import": ("`from dsh_core import Harness`", "ms", 1.5, 1.2),
    "cold": ("process start to first answer", "ms", 1.5, 1.25),
    "cli": ("`dsh --help`", "ms", 2.0, 1.5),
}
CLI_BASE = "floor_asyncio"
AGENT_KB, PEAK_RATIO = 100, 1.5


def machine():
    """Cores and kind of CPU; no host name."""
    try:
        with open("/proc/cpuinfo") as f:
            kind = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "")
    except OSError:
        kind = platform.processor()
    return f"{os.cpu_count()} cores ({re.sub(r'[ ]+', ' ', kind) or platform.machine()})"


def number(x):
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.1f}" if abs(x) >= 10 else f"{x:.2f}"


def verdict(ratio, must, aim):
    return "aim met" if ratio <= aim else "met" if ratio <= must else "**missed**"


def rows(results, names):
    """Yield a row for each scenario: dsh's figure, its ratio and target, and the others' ratios."""
    for scenario, (what, unit, must, aim) in TARGETS.items():
        found = results.get(scenario, {})
        base = found.get(CLI_BASE if scenario == "cli" else BASE)
        if "dsh" not in found or base is None:
            continue
        ratios = {name: found[name]["median"] / base["median"] for name in found}
        others = [f"{ratios[n]:.2f}" if n in ratios else "–" for n in names]
        yield [f"`{scenario}`: {what}", f"{number(found['dsh']['median'])} {unit}", f"**{ratios['dsh']:.2f}**",
               f"≤ {must} (aim {aim})", verdict(ratios["dsh"], must, aim), *others]


def extras(results):
    """Yield sentences for the targets that are no ratio of two times."""
    history = results.get("history", {})
    if "dsh" in history and BASE in history:
        own, base = (history[n]["extra"]["slope µs/turn"] for n in ("dsh", BASE))
        yield f"Each earlier turn makes a turn of `history` {own:+.2f} µs dearer (bare httpx: {base:+.2f} µs; the slope must not be above it): {'met' if own <= base else '**missed**'}."
    parallel = results.get("parallel", {})
    if "dsh" in parallel and BASE in parallel:
        own, base = parallel["dsh"]["extra"], parallel[BASE]["extra"]
        kb, peak = own["kB per agent"], own["peak RSS MB"] / base["peak RSS MB"]
        yield f"An agent of `parallel` takes {kb:.0f} kB (must be ≤ {AGENT_KB}): {'met' if kb <= AGENT_KB else '**missed**'}. The process peaks at {own['peak RSS MB']:.0f} MB, {peak:.2f} times bare httpx (must be ≤ {PEAK_RATIO}): {'met' if peak <= PEAK_RATIO else '**missed**'}."
    if "dsh" in results.get("cold_cli", {}):
        yield f"`dsh run -c dsh.yaml …`, from process start to exit: {number(results['cold_cli']['dsh']['median'])} ms (no target)."


def figures(results, head, titles):
    """Return the Markdown between the markers."""
    names = [n for n in titles if n not in ("dsh", BASE, CLI_BASE) and any(n in found for found in results.values())]
    first = ["", "dsh", "ratio", "target", "", *[titles[n] for n in names]]
    lines = ["| " + " | ".join(first) + " |", "|---|--:|--:|---|---|" + "--:|" * len(names)]
    lines += ["| " + " | ".join(row) + " |" for row in rows(results, names)]
    versions = ", ".join(f"{titles.get(n, n)} {v['version']}" for n, v in head["versions"].items() if v["version"] not in (None, "stdlib"))
    about = f"{head['date']}, {machine()}, {platform.system()} {head['kernel'].split('-')[0]}, Python {head['python']}. {head['samples']} samples, {head['disturbed']} of them with other programs on more than a quarter of a core. {versions}."
    return "\n\n".join([about, "\n".join(lines), *extras(results)])


def write(path, results, head, titles, more=""):
    """Put the figures between the markers of a page."""
    with open(path, encoding="utf-8") as f:
        page = f.read()
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{before}{BEGIN}\n\n{figures(results, head, titles)}\n{more}\n{END}{after}")
