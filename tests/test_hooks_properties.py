"""Any mix of implementations, failures and cancellations runs as a small interpreter says.

The interpreter is the contract of waterfalls in forty lines of plain recursion: it knows no asyncio
and no pluggy. The run's log, its result and its blame must agree with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.errors import PluginError
from dsh_core.marks import OnError, hookimpl, waterfall
from dsh_core.testing.hooks import HookLab

Band = Literal["tryfirst", "", "trylast"]


@waterfall(OnError.END_TURN, returns=(str,), replaceable=("text",))
async def rewrite(text: str) -> str: ...


class Boom(Exception):
    """What a plugin or the core raises; `author` is who made it."""

    def __init__(self, author: str):
        super().__init__(author)
        self.author = author


@dataclass(frozen=True)
class Plain:
    """A decider: passes, answers or raises."""

    band: Band
    does: Literal["pass", "answer", "raise", "junk"]
    is_async: bool


@dataclass(frozen=True)
class Around:
    """A `call_next` wrapper: how often it asks, whether it replaces, catches, and how it ends."""

    band: Band
    asks: int
    replaces: bool
    catches: bool
    ends: Literal["return", "raise"]


@dataclass(frozen=True)
class Wrapper:
    """A generator wrapper."""

    band: Band
    opens: Literal["yield", "raise", "empty"]
    catches: bool
    ends: Literal["return", "raise", "junk"]


@dataclass
class World:
    """What the core does each time it is asked: a text, a failure, or being cancelled."""

    core: list[Literal["answer", "raise", "cancel"]]
    log: list[str] = field(default_factory=list)
    asked: int = 0

    def next_core(self) -> str:
        self.asked += 1
        return self.core[(self.asked - 1) % len(self.core)]


# ---------------------------------------------------------------------------- interpreter


class Cancelled(Exception):
    """The whole call was cancelled."""


def interpreted(plugins: dict[str, Any], world: World) -> str:
    places = {"tryfirst": 0, "": 1, "trylast": 2}
    ordered = sorted(plugins, key=lambda name: places[plugins[name].band])
    wrappers = [name for name in ordered if isinstance(plugins[name], Wrapper)]
    rest = [name for name in ordered if name not in wrappers]
    return through_wrappers(wrappers, rest, plugins, world)


def through_wrappers(
    wrappers: list[str], rest: list[str], plugins: dict[str, Any], world: World
) -> str:
    if not wrappers:
        return through_plain(rest, "t", plugins, world)
    name, plugin = wrappers[0], plugins[wrappers[0]]
    world.log.append(f"{name} opens")
    if plugin.opens != "yield":
        raise Boom(name)
    try:
        inner = through_wrappers(wrappers[1:], rest, plugins, world)
    except Cancelled:
        world.log.append(f"{name} unwinds")
        raise
    except Boom:
        world.log.append(f"{name} unwinds")
        if not plugin.catches:
            raise
        inner = "caught"
    else:
        world.log.append(f"{name} closes")
    if plugin.ends != "return":
        raise Boom(name)
    return f"{name}({inner})"


def through_plain(names: list[str], text: str, plugins: dict[str, Any], world: World) -> str:
    if not names:
        does = world.next_core()
        world.log.append(f"core {text}")
        if does == "cancel":
            raise Cancelled
        if does == "raise":
            raise Boom("core")
        return f"core({text})"
    name, plugin, rest = names[0], plugins[names[0]], names[1:]
    world.log.append(f"{name} {text}")
    if isinstance(plugin, Plain):
        if plugin.does == "pass":
            return through_plain(rest, text, plugins, world)
        if plugin.does == "answer":
            return name
        raise Boom(name)
    inner = "vetoed"
    for _ in range(plugin.asks):
        try:
            changed = f"{text}{name}" if plugin.replaces else text
            inner = through_plain(rest, changed, plugins, world)
        except Boom:
            if not plugin.catches:
                raise
            inner = "caught"
    if plugin.ends == "raise":
        raise Boom(name)
    return f"{name}({inner})"


# ------------------------------------------------------------------------------- the real


current: ContextVar[World] = ContextVar("world")
"""The world of the running call: several share the plugins."""


def real_plain(name: str, plain: Plain) -> object:
    def answer(text: str) -> Any:
        current.get().log.append(f"{name} {text}")
        if plain.does == "raise":
            raise Boom(name)
        return {"pass": None, "answer": name, "junk": 5}[plain.does]

    class Async:
        @hookimpl(**options(plain.band))
        async def rewrite(self, text: str) -> Any:
            await asyncio.sleep(0)
            return answer(text)

    class Sync:
        @hookimpl(**options(plain.band))
        def rewrite(self, text: str) -> Any:
            return answer(text)

    return Async() if plain.is_async else Sync()


def real_around(name: str, around: Around) -> object:
    class Wraps:
        @hookimpl(**options(around.band))
        async def rewrite(self, text: str, *, call_next: Any) -> str:
            current.get().log.append(f"{name} {text}")
            inner = "vetoed"
            for _ in range(around.asks):
                try:
                    changes = {"text": f"{text}{name}"} if around.replaces else {}
                    inner = await call_next(**changes)
                except (Boom, PluginError):
                    if not around.catches:
                        raise
                    inner = "caught"
            if around.ends == "raise":
                raise Boom(name)
            return f"{name}({inner})"

    return Wraps()


def real_wrapper(name: str, wrapper: Wrapper) -> object:
    class Wraps:
        @hookimpl(wrapper=True, **options(wrapper.band))
        def rewrite(self) -> Generator[None, str, Any]:
            world = current.get()
            world.log.append(f"{name} opens")
            if wrapper.opens == "raise":
                raise Boom(name)
            if wrapper.opens == "empty":
                return "never"
            try:
                inner = yield
            except asyncio.CancelledError:
                world.log.append(f"{name} unwinds")
                if wrapper.ends == "raise":
                    raise Boom(name) from None
                return "swallowed"
            except (Boom, PluginError):
                world.log.append(f"{name} unwinds")
                if not wrapper.catches:
                    raise
                inner = "caught"
            else:
                world.log.append(f"{name} closes")
            if wrapper.ends == "raise":
                raise Boom(name)
            return 5 if wrapper.ends == "junk" else f"{name}({inner})"

    return Wraps()


def options(band: Band) -> dict[str, bool]:
    return {band: True} if band else {}


def built(name: str, plugin: Any) -> object:
    make: dict[type[Any], Any] = {Plain: real_plain, Around: real_around, Wrapper: real_wrapper}
    return make[type(plugin)](name, plugin)


def lab_of(plugins: dict[str, Any]) -> HookLab:
    return HookLab(rewrite, **{name: built(name, plugin) for name, plugin in plugins.items()})


async def really(lab: HookLab, world: World) -> tuple[str, Any]:
    current.set(world)
    task: asyncio.Task[str]

    async def core(text: str) -> str:
        does = world.next_core()
        world.log.append(f"core {text}")
        if does == "raise":
            raise Boom("core")
        if does == "cancel":
            task.cancel()
            await asyncio.Event().wait()
        return f"core({text})"

    task = asyncio.ensure_future(lab.hooks.waterfall(rewrite, core, text="t"))
    await asyncio.wait({task})
    if task.cancelled():
        return "cancelled", None
    error = task.exception()
    if error is None:
        return "result", task.result()
    if isinstance(error, PluginError):
        cause = error.__cause__
        if cause is not None:
            assert isinstance(cause, Boom)
            assert cause.author == error.plugin
        assert error.hook == "rewrite"
        return "raised", error.plugin
    assert isinstance(error, Boom)
    return "raised", error.author


def expected(plugins: dict[str, Any], world: World) -> tuple[str, Any]:
    try:
        return "result", interpreted(plugins, world)
    except Cancelled:
        return "cancelled", None
    except Boom as error:
        return "raised", error.author


bands: st.SearchStrategy[Band] = st.sampled_from(["tryfirst", "", "", "trylast"])  # type: ignore[list-item]
plain = st.builds(
    Plain, bands, st.sampled_from(["pass", "pass", "answer", "raise", "junk"]), st.booleans()
)
around = st.builds(
    Around,
    bands,
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["return", "return", "raise"]),
)
wrapper = st.builds(
    Wrapper,
    bands,
    st.sampled_from(["yield", "yield", "yield", "raise", "empty"]),
    st.booleans(),
    st.sampled_from(["return", "return", "raise", "junk"]),
)
mixes = st.lists(st.one_of(plain, around, wrapper), max_size=6).map(
    lambda plugins: {"abcdef"[place]: plugin for place, plugin in enumerate(plugins)}
)
cores = st.lists(st.sampled_from(["answer", "answer", "raise", "cancel"]), min_size=1, max_size=3)


@settings(max_examples=200, deadline=None)
@given(mixes, cores)
def test_any_mix_runs_as_the_interpreter_says(plugins: dict[str, Any], core: Any) -> None:
    model, world = World(core), World(core)
    wanted = expected(plugins, model)
    assert asyncio.run(really(lab_of(plugins), world)) == wanted
    assert world.log == model.log


@settings(max_examples=50, deadline=None)
@given(mixes, cores, cores)
def test_two_runs_on_one_manager_do_not_see_each_other(
    plugins: dict[str, Any], one: Any, other: Any
) -> None:
    models = [World(one), World(other)]
    wanted = [expected(plugins, model) for model in models]
    worlds = [World(one), World(other)]

    async def both() -> list[tuple[str, Any]]:
        lab = lab_of(plugins)
        return list(await asyncio.gather(*(really(lab, world) for world in worlds)))

    assert asyncio.run(both()) == wanted
    assert [world.log for world in worlds] == [model.log for model in models]
