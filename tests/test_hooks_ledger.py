"""Who changed a draft, and what a trace says about a waterfall."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import pytest
from waterfalls import Decides, Next, Wraps, rewrite, run

from dsh_core import hookspecs
from dsh_core.errors import PluginError
from dsh_core.marks import hookimpl
from dsh_core.request import Request
from dsh_core.testing.hooks import HookLab

# ------------------------------------------------------------------------------------------ drafts


def request() -> Request:
    return Request("p/m", system="s")


async def ask(lab: HookLab, draft: Request) -> Request:
    async def unchanged(agent: Any, turn: int, step: int, request: Request) -> Request:
        return request

    return await lab.hooks.waterfall(
        hookspecs.agent_request,
        unchanged,
        agent=None,  # type: ignore[arg-type]
        turn=1,
        step=1,
        request=draft,
    )


class Sets:
    """Implements `agent_request`: sets an attribute, and passes or wraps."""

    def __init__(self, **values: Any):
        self.values = values

    def set_on(self, request: Request) -> None:
        for name, value in self.values.items():
            setattr(request, name, value)


class Mutates(Sets):
    @hookimpl
    async def agent_request(self, request: Request) -> None:
        self.set_on(request)


class MutatesAfter(Sets):
    @hookimpl
    async def agent_request(self, *, call_next: Any) -> Request:
        result: Request = await call_next()
        self.set_on(result)
        return result


class MutatesAround(Sets):
    @hookimpl(wrapper=True)
    def agent_request(self) -> Generator[None, Request, Request]:
        result = yield
        self.set_on(result)
        return result


class MutatesBefore(Sets):
    @hookimpl(wrapper=True)
    def agent_request(self, request: Request) -> Generator[None, Request, Request]:
        self.set_on(request)
        return (yield)


class Replaces(Sets):
    @hookimpl
    async def agent_request(self, request: Request, *, call_next: Any) -> Request:
        result: Request = await call_next(request=copy_of(request, **self.values))
        return result


class DecidesAnew(Sets):
    @hookimpl
    async def agent_request(self, request: Request) -> Request:
        return copy_of(request, **self.values)


def copy_of(request: Request, **changes: Any) -> Request:
    other = Request(request.model)
    for name in Request.fields:
        setattr(other, name, changes.get(name, getattr(request, name)))
    return other


@pytest.mark.parametrize(
    "kind", [Mutates, MutatesAfter, MutatesAround, MutatesBefore, Replaces, DecidesAnew]
)
async def test_every_way_to_change_a_draft_names_the_plugin(kind: type[Sets]) -> None:
    lab = HookLab(a=Mutates(stream=False), b=kind(system="b"), c=Mutates(parameters={"x": 1}))
    result = await ask(lab, request())
    assert result.system == "b"
    expected = {"stream": "a", "system": "b", "parameters": "c"}
    if kind is DecidesAnew:
        del expected["parameters"]
    assert result.changed_by == expected


@pytest.mark.parametrize("outer", [MutatesAfter, MutatesAround])
@pytest.mark.parametrize("inner", [Replaces, DecidesAnew])
async def test_who_changes_a_new_draft_afterwards_is_named_too(
    outer: type[Sets], inner: type[Sets]
) -> None:
    lab = HookLab(a=outer(system="a", stream=False), b=inner(model="b/b", system="b"))
    result = await ask(lab, request())
    assert (result.model, result.system) == ("b/b", "a")
    assert result.changed_by == {"model": "b", "system": "a", "stream": "a"}


async def test_what_a_nested_plugin_or_the_core_changes_is_not_put_down_to_the_wrapper() -> None:
    async def core(agent: Any, turn: int, step: int, request: Request) -> Request:
        request.stream = False
        return request

    lab = HookLab(a=MutatesAfter(system="a"))
    result = await lab.hooks.waterfall(
        hookspecs.agent_request,
        core,
        agent=None,  # type: ignore[arg-type]
        turn=1,
        step=1,
        request=request(),
    )
    assert result.changed_by == {"system": "a"}


async def test_after_the_waterfall_changes_have_no_author() -> None:
    result = await ask(HookLab(a=Mutates(system="a")), request())
    result.model = "later/m"
    assert result.changed_by == {"system": "a"}


async def test_only_a_draft_can_take_a_drafts_place() -> None:
    class Tries:
        @hookimpl
        async def agent_request(self, *, call_next: Any) -> Request:
            result: Request = await call_next(request={"model": "x"})
            return result

    with pytest.raises(PluginError, match="`request` must be a Request, not a dict"):
        await ask(HookLab(a=Tries()), request())


# ----------------------------------------------------------------------------------------- tracing


class Trace:
    def __init__(self) -> None:
        self.entries: list[tuple[str, tuple[Mapping[str, Any], ...]]] = []

    def __call__(
        self, hook: str, seconds: float, ran: tuple[Mapping[str, Any], ...], values: Any
    ) -> None:
        assert seconds >= 0
        self.entries.append((hook, ran))

    def last(self) -> list[tuple[str, tuple[str, ...], bool]]:
        return [(r["plugin"], r["changed"], r["decided"]) for r in self.entries[-1][1]]


async def test_a_trace_says_who_ran_what_each_changed_and_who_decided() -> None:
    trace = Trace()
    lab = HookLab(
        tracer=trace,
        around=MutatesAround(system="w"),
        passes=Mutates(),
        wraps=MutatesAfter(parameters={"x": 1}),
        sets=Mutates(stream=False),
        decides=DecidesAnew(model="d/d"),
        never=Mutates(system="never"),
    )
    await ask(lab, request())
    assert trace.last() == [
        ("around", ("system",), False),
        ("passes", (), False),
        ("wraps", ("parameters",), False),
        ("sets", ("stream",), False),
        ("decides", ("model",), True),
    ]
    assert all(record["seconds"] >= 0 for record in trace.entries[-1][1])


async def test_a_trace_shows_replaced_arguments_and_changed_results() -> None:
    class Upper:
        @hookimpl
        async def rewrite(self, text: str, *, call_next: Next) -> str:
            return await call_next(text=text.upper())

    trace = Trace()
    await run(HookLab(rewrite, tracer=trace, a=Upper(), b=Wraps("b"), c=Decides(None)))
    assert trace.last() == [("a", ("text",), False), ("b", (), True), ("c", (), False)]


async def test_a_trace_shows_how_each_plugin_changed_what() -> None:
    class InPlace:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            request.parameters["top_p"] = 1  # type: ignore[index]

    trace = Trace()
    lab = HookLab(
        tracer=trace,
        sets=Mutates(system="s\nBe polite."),
        same=Mutates(system="s\nBe polite."),
        wraps=MutatesAfter(system="last"),
        in_place=InPlace(),
    )
    await ask(lab, request())

    by_plugin = {record["plugin"]: record.get("diff") for record in trace.entries[-1][1]}
    assert by_plugin == {
        "sets": {"system": ("+ Be polite.",)},
        "same": None,
        "wraps": {"system": ("- s", "- Be polite.", "+ last")},
        "in_place": {"parameters": ("+ top_p: 1",)},
    }


async def test_a_trace_shows_what_was_decided() -> None:
    trace = Trace()
    await run(HookLab(rewrite, tracer=trace, a=Wraps("a"), b=Decides("mine")))

    decisions = [record["decision"] for record in trace.entries[-1][1]]
    assert decisions == [("- mine", "+ a(mine)"), ("mine",)]


async def test_what_cannot_be_compared_changes_nothing() -> None:
    class Odd(Request):
        def __init__(self) -> None:
            super().__init__("p/m")
            self.messages = (Incomparable(),)  # type: ignore[assignment]

    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise ArithmeticError("no")

        __hash__ = None  # type: ignore[assignment]

    trace = Trace()
    await ask(HookLab(tracer=trace, a=Mutates(messages=(Incomparable(),))), Odd())

    (record,) = trace.entries[-1][1]
    assert record["diff"] == {"messages": ("? cannot be shown: no",)}


async def test_nothing_is_compared_while_nobody_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*values: Any) -> Any:
        raise AssertionError("compared")

    monkeypatch.setattr("dsh_core.hooks.ledger.difference", never)
    monkeypatch.setattr("dsh_core.hooks.ledger._is_equal", never)
    assert (await ask(HookLab(a=Mutates(system="b")), request())).system == "b"


async def test_a_failed_waterfall_is_traced_too_and_a_failing_tracer_changes_nothing() -> None:
    trace = Trace()
    with pytest.raises(PluginError):
        await run(HookLab(rewrite, tracer=trace, a=Wraps("a"), b=Decides(ValueError("no"))))
    assert trace.last() == [("a", (), False), ("b", (), False)]

    def broken(*arguments: Any) -> None:
        raise OSError("disk full")

    assert await run(HookLab(rewrite, tracer=broken, a=Wraps("a"))) == "a(core(t))"


async def test_a_hook_that_nobody_implements_is_not_traced() -> None:
    trace = Trace()
    await run(HookLab(rewrite, tracer=trace))
    assert trace.entries == []
