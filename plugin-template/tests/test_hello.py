"""The plugin in a real harness, with a model that says what the test wants."""

from dsh_core.events import ToolResultEvent
from dsh_core.testing import calling, request_text

from dsh_hello import Hello

ADA = calling("hello", name="Ada")


def plugin(greeting: str = "Good day") -> Hello:
    return Hello(Hello.Settings(greeting))


async def test_the_model_greets_with_the_words_of_the_settings(dsh_offline):
    async with dsh_offline(ADA, "Done.", plugin=plugin("Good morning")) as offline:
        result = await offline.agent.run("Greet Ada.")

        assert result.is_success, result.reason
        assert "Good morning, Ada!" in request_text(offline.requests[1])


async def test_nobody_is_greeted_twice_by_one_agent(dsh_offline):
    async with dsh_offline(ADA, ADA, "Done.", plugin=plugin()) as offline:
        await offline.agent.run("Greet Ada twice.")
        other = offline.harness.agents.create()
        await other.run("Greet Ada.")

        assert "Ada was greeted before." in request_text(offline.requests[2])
        assert "Ada was greeted before." not in request_text(offline.requests[4])


async def test_front_ends_learn_how_many_were_greeted(dsh_offline):
    async with dsh_offline(ADA, ADA, "Done.", plugin=plugin()) as offline:
        await offline.agent.run("Greet Ada twice.")

        results = offline.logged(ToolResultEvent)
        assert [result.meta["greeted"] for result in results] == [0, 1]


async def test_a_bad_name_is_an_error_that_the_model_reads(dsh_offline):
    async with dsh_offline(calling("hello", name="?"), "Sorry.", plugin=plugin()) as offline:
        await offline.agent.run("Greet ?.")

        assert offline.logged(ToolResultEvent)[0].is_error
        assert "'?' is no name" in request_text(offline.requests[1])


async def test_the_model_is_told_about_the_tool(dsh_offline):
    async with dsh_offline("Hi.", plugin=plugin()) as offline:
        await offline.agent.run("Hi.")

        assert "Greet people with the tool `hello`." in offline.requests[0].system


async def test_the_command_lists_who_was_greeted(dsh_offline):
    async with dsh_offline(ADA, "Done.", plugin=plugin()) as offline:
        await offline.agent.run("Greet Ada.")

        assert await offline.harness.commands.execute(offline.agent, "/hello") == "Ada"
