"""What a hook costs where nobody implements it, beside bare pluggy and an empty method call. Run in dsh's venv; prints JSON.

    python hooks.py
"""
import asyncio, gc, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import micro
import pluggy

from dsh_core import Hooks, hookspecs

N = 20000
WATERFALL, PLUGGY = "`tools_execute` (waterfall) without a plugin", "bare pluggy call, `firstresult`, without a plugin"
CHUNK, METHODS = "`agent_stream_chunk` (per chunk) without a plugin", "two empty method calls"


class Spec:
    @pluggy.HookspecMarker("bench")(firstresult=True)
    def first(self, agent, call): ...


class Empty:
    def method(self, chunk):
        pass


async def answer(agent, call):
    return call


def costs():
    """Return µs of each, taken off what the loop itself and the core's own answer cost."""
    hooks = Hooks(report=lambda error, values: None, rank=lambda name: 0)
    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(Spec)

    async def nothing():
        for _ in range(N):
            await answer(agent=None, call=None)

    async def waterfall():
        for _ in range(N):
            await hooks.waterfall(hookspecs.tools_execute, answer, agent=None, call=None)

    def bare():
        first = manager.hook.first
        for _ in range(N):
            first(agent=None, call=None)

    def chunks():
        seen, emit = hookspecs.agent_stream_chunk, hooks.emit
        name = seen.__name__
        for _ in range(N):  # as dsh_core/loop/reply.py does
            if name in hooks.implemented:
                emit(seen, agent=None, turn=1, step=1, chunk=None)

    def methods():
        method = Empty().method
        for _ in range(N):
            method(None)
            method(None)

    def loop():
        for _ in range(N):
            pass

    plan = {"loop": loop, "own answer": lambda: asyncio.run(nothing()), WATERFALL: lambda: asyncio.run(waterfall()),
            PLUGGY: bare, CHUNK: chunks, METHODS: methods}
    for name, run in plan.items():
        micro.record(name, run, N)
    best = min(micro.BEST, sorted(micro.Pulse.times)[len(micro.Pulse.times) // 50])
    us = {name: work * best * 1e3 for name, work, _ in micro.ROWS}
    us[WATERFALL] -= us["own answer"]
    for name in (PLUGGY, CHUNK, METHODS):
        us[name] -= us["loop"]
    return {name: us[name] for name in (WATERFALL, PLUGGY, CHUNK, METHODS)}


if __name__ == "__main__":
    gc.collect()
    print(json.dumps(costs()))
