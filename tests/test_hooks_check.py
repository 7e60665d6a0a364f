"""What is refused at registration, and how it is said."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Generator
from types import ModuleType
from typing import Any

import pytest

from dsh_core import hookspecs
from dsh_core.errors import PluginError
from dsh_core.marks import OnError, collect, emit, hookimpl, mode_of, parallel, waterfall
from dsh_core.testing.hooks import HookLab


def refusal(plugin: object) -> str:
    with pytest.raises(PluginError) as caught:
        HookLab(mine=plugin)
    assert caught.value.plugin == "mine"
    return str(caught.value)


class Misspelt:
    @hookimpl
    async def agent_requst(self, request: Any) -> None: ...


class Unlike:
    @hookimpl
    async def zzz(self) -> None: ...


class UnknownArgument:
    @hookimpl
    async def agent_request(self, reqest: Any) -> None: ...


class AsyncForSync:
    @hookimpl
    async def agent_stream_chunk(self, chunk: Any) -> None: ...


class AnyKeywords:
    @hookimpl
    async def agent_request(self, **kwargs: Any) -> None: ...


class AnyPositions:
    @hookimpl
    async def agent_request(self, *args: Any) -> None: ...


class Default:
    @hookimpl
    async def agent_request(self, request: Any = None) -> None: ...


class DefaultOfCallNext:
    @hookimpl
    async def agent_request(self, *, call_next: Any = None) -> None: ...


class KeywordOnly:
    @hookimpl
    async def agent_request(self, *, request: Any) -> None: ...


class CallNextOutsideWaterfall:
    @hookimpl
    async def agent_turn_start(self, *, call_next: Any) -> None: ...


class CallNextInSync:
    @hookimpl
    def agent_request(self, *, call_next: Any) -> None: ...


class CallNextByPosition:
    @hookimpl
    async def agent_request(self, call_next: Any) -> None: ...


class WrapperOutsideWaterfall:
    @hookimpl(wrapper=True)
    def agent_turn_start(self) -> Generator[None, None, None]:
        yield


class WrapperOfStream:
    @hookimpl(wrapper=True)
    def llm_stream(self) -> Generator[None, Any, Any]:
        return (yield)


class WrapperThatIsNoGenerator:
    @hookimpl(wrapper=True)
    def agent_request(self) -> None: ...


class AsyncWrapper:
    @hookimpl(wrapper=True)
    async def agent_request(self) -> AsyncIterator[None]:
        yield


class OldWrapper:
    @hookimpl(hookwrapper=True)
    def agent_request(self) -> Generator[None, Any, None]:
        yield


class GeneratorWithoutWrapper:
    @hookimpl
    def agent_request(self) -> Generator[None, Any, None]:
        yield


class GeneratorAsNotification:
    @hookimpl
    def agent_stream_chunk(self) -> Generator[None, Any, None]:
        yield


class AsyncGeneratorAsAnswer:
    @hookimpl
    async def agent_request(self) -> AsyncIterator[None]:
        yield


REQUEST = "async def agent_request(agent, turn, step, request)"
FOUND = {
    Misspelt: (
        "agent_requst: there is no such hook; did you mean `agent_request`? (a hook of an absent "
        "plugin needs optionalhook=True); found `async def agent_requst(request: 'Any') -> 'None'`",
        "",
    ),
    Unlike: ("zzz: there is no such hook; `dsh hooks` lists them.", ""),
    UnknownArgument: (
        "agent_request: the hook has no argument `reqest`; did you mean `request`?; found "
        "`async def agent_request(reqest: 'Any') -> 'None'`, ",
        REQUEST,
    ),
    AsyncForSync: (
        "the hook is called synchronously; `async def` would never run; found "
        "`async def agent_stream_chunk(chunk: 'Any') -> 'None'`",
        "def agent_stream_chunk(agent, turn, step, chunk)",
    ),
    AnyKeywords: ("`**kwargs: 'Any'` is not allowed: name the arguments you want", REQUEST),
    AnyPositions: ("`*args: 'Any'` is not allowed: name the arguments you want", REQUEST),
    Default: ("`request` must not have a default", REQUEST),
    DefaultOfCallNext: ("`call_next` must not have a default", REQUEST),
    KeywordOnly: ("keyword-only `request` is not allowed; only `call_next` is", REQUEST),
    CallNextOutsideWaterfall: (
        "`call_next` is for waterfalls; this hook is emit",
        "async def agent_turn_start(agent, turn)",
    ),
    CallNextInSync: ("`call_next` needs an `async def`", REQUEST),
    CallNextByPosition: ("`call_next` must be keyword-only: write `*, call_next`", REQUEST),
    WrapperOutsideWaterfall: ("wrapper=True is for waterfalls; this hook is emit", "agent_turn"),
    WrapperOfStream: ("wrapper=True cannot wrap a stream; use `call_next`", "llm_stream"),
    WrapperThatIsNoGenerator: ("wrapper=True needs a generator function with one `yield`", REQUEST),
    AsyncWrapper: ("wrapper=True needs a generator function with one `yield`", REQUEST),
    OldWrapper: ("hookwrapper=True is not supported; use wrapper=True", REQUEST),
    GeneratorWithoutWrapper: (
        "a generator function would never run; return the answer, or wrap with wrapper=True",
        REQUEST,
    ),
    GeneratorAsNotification: ("a generator function would never run", "agent_stream_chunk"),
    AsyncGeneratorAsAnswer: ("an async generator is not an answer here", REQUEST),
}


@pytest.mark.parametrize("plugin", FOUND, ids=lambda plugin: plugin.__name__)
def test_what_cannot_work_is_refused_with_plugin_hook_found_and_right_signature(
    plugin: type[Any],
) -> None:
    problem, right = FOUND[plugin]
    message = refusal(plugin())
    assert message.startswith("plugin 'mine' in ")
    assert problem in message
    assert right in message.partition("the hook is `")[2]


def test_a_refused_plugin_leaves_nothing_behind() -> None:
    lab = HookLab()
    with pytest.raises(PluginError):
        lab.add("mine", UnknownArgument())
    assert not lab.hooks.manager.has_plugin("mine")
    assert not lab.hooks.has(hookspecs.agent_request)


def test_a_hook_of_an_absent_plugin_is_optional_when_it_says_so() -> None:
    class Optional:
        @hookimpl(optionalhook=True)
        async def zzz(self, anything: int) -> None: ...

    lab = HookLab(mine=Optional())
    lab.hooks.manager.check_pending()


def test_optional_hooks_that_exist_are_checked_like_others() -> None:
    class Wrong:
        @hookimpl(optionalhook=True)
        async def agent_request(self, nonsense: int) -> None: ...

    assert "no argument `nonsense`" in refusal(Wrong())


def test_async_and_sync_implementations_of_an_async_hook_are_fine() -> None:
    class Both:
        @hookimpl
        def agent_turn_start(self, agent: Any) -> None: ...

        @hookimpl
        async def agent_turn_end(self, turn: Any, agent: Any) -> None: ...

        @hookimpl
        async def llm_stream(self, *, call_next: Any) -> AsyncIterator[Any]:
            yield

    HookLab(mine=Both())


def test_properties_and_other_computed_attributes_are_not_run() -> None:
    ran: list[str] = []

    class Computed:
        @property
        def settings(self) -> int:
            ran.append("property")
            raise RuntimeError("not now")

        @functools.cached_property
        def client(self) -> int:
            ran.append("cached_property")
            return 1

        @hookimpl
        def agent_stream_chunk(self, chunk: Any) -> None:
            ran.append("hook")

    lab = HookLab(mine=Computed())
    lab.hooks.emit(hookspecs.agent_stream_chunk, agent=None, turn=1, step=1, chunk=None)  # type: ignore[arg-type]
    lab.hooks.unregister("mine")
    assert ran == ["hook"]


def test_static_and_class_methods_and_module_functions_are_implementations() -> None:
    ran = []

    class Methods:
        @staticmethod
        @hookimpl
        def agent_stream_chunk(step: int) -> None:
            ran.append(f"static {step}")

        @classmethod
        @hookimpl
        def agent_status(cls, status: str) -> None:
            ran.append(f"class {status}")

    module = ModuleType("plugin")

    @hookimpl
    def agent_status(status: str) -> None:
        ran.append(f"module {status}")

    module.agent_status = agent_status  # type: ignore[attr-defined]
    lab = HookLab(methods=Methods(), module=module)
    lab.hooks.emit(hookspecs.agent_stream_chunk, agent=None, turn=1, step=2, chunk=None)  # type: ignore[arg-type]
    lab.hooks.emit(hookspecs.agent_status, agent=None, status="idle")  # type: ignore[arg-type]
    assert ran == ["static 2", "class idle", "module idle"]


# ------------------------------------------------------------------------------------ specs


def test_a_spec_that_cannot_be_called_is_refused_when_it_is_declared() -> None:
    def sync() -> None: ...

    def keyword(*, value: int) -> None: ...

    async def reserved(call_next: int) -> None: ...

    async def fine(value: int) -> None: ...

    cases = [
        (lambda: waterfall(OnError.REPORT)(sync), "a waterfall is awaited: write `async def`"),
        (lambda: parallel(OnError.REPORT, limit_seconds=1)(sync), "a parallel is awaited"),
        (lambda: emit(OnError.REPORT, limit_seconds=1)(sync), "limit_seconds needs an `async def`"),
        (lambda: emit()(keyword), "`value: 'int'` cannot be an argument"),
        (lambda: collect(OnError.REPORT)(reserved), "`call_next: 'int'` cannot be an argument"),
        (
            lambda: waterfall(OnError.REPORT, replaceable=("other",))(fine),
            "it has no argument `other`",
        ),
        (lambda: waterfall(OnError.REPORT, draft="draft")(fine), "it has no argument `draft`"),
    ]
    for declare, message in cases:
        with pytest.raises(TypeError, match=r"^hook ") as caught:
            declare()
        assert message in str(caught.value)


def test_an_unmarked_function_has_no_mode() -> None:
    def plain() -> None: ...

    with pytest.raises(TypeError, match="plain is not marked as a hook"):
        mode_of(plain)
