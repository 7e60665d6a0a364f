"""dsh itself: `Harness` from code, one agent per session, text through `agent_stream_chunk`."""
import os, tempfile

YAML = "providers:\n  bench: {adapter: openai_chat, base_url: %s, api_key: sk-bench, models: {bench: {}}}\nagents:\n  bench: {model: bench/bench}\n"


def run(url):
    """Return the command of `cold_cli`, its configuration in a file."""
    path = os.path.join(tempfile.gettempdir(), f"dsh-bench-{os.getpid()}.yaml")
    with open(path, "w") as f:
        f.write(YAML % url)
    return ["dsh", "run", "-c", path, "bench text_chunks=1"]


META = dict(name="dsh", dist="dsh-core", venv="dsh", pip=["-e", os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")) + "[fast]"], python="3.11",
            imports="from dsh_core import Harness, hookimpl, tool", cli=["dsh", "--help"], cold_cli=run)


def setup(base_url):
    global harness, definition, listeners
    import common
    from dsh_core import AgentDefinition, Harness, HarnessConfig, ModelConfig, ProviderConfig, Secret, TextDelta, hookimpl, tool

    listeners = {}

    class Bench:
        @hookimpl
        def tools_register(self, harness):
            return [tool(name="add")(common.aadd)]

        @hookimpl
        def agent_stream_chunk(self, agent, chunk):
            if type(chunk) is TextDelta and (on_text := listeners.get(agent.id)):
                on_text(chunk.text)

    provider = ProviderConfig("bench", "openai_chat", base_url=base_url, api_key=Secret("sk-bench"), models={"bench": ModelConfig()})
    harness = Harness(HarnessConfig(autoload=False), plugins={"bench": Bench()}, providers=[provider])
    definition = AgentDefinition("bench", system_prompt=common.SYSTEM, model="bench/bench")


class Session:
    agent = None

    async def send(self, prompt, stream=True, on_text=None):
        if not harness.is_running:
            await harness.start()
        if self.agent is None:
            from dataclasses import replace

            self.agent = harness.agents.create(definition)
            self.agent.options = replace(self.agent.options, stream=stream)
        if on_text:
            listeners[self.agent.id] = on_text
        return (await self.agent.run(prompt)).text
