"""Time of a decision of dsh-permission, beside an empty hook call and the start of a program.

    python bench/permission.py      # in the project's environment

Best of several rounds, all in one run: other load on the machine slows each of them alike. A plain
command should take at most 150 empty hook calls, any other at most three starts of /bin/true.
"""
import asyncio, json, subprocess, sys, tempfile, time
from pathlib import Path

from dsh_core import Call, Harness, HarnessConfig, hookimpl, hookspecs, tool
from dsh_permission import Permission, PermissionSettings

RULES = dict(
    allow=["Bash(npm run test:*)", "Bash(git commit:*)", "Edit(src/**)"],
    ask=["Bash(git push:*)"],
    deny=["Read(.env)", "Read(~/.ssh/**)", "Bash(rm -rf:*)"],
)
PLAIN = ["ls -la", "git status --short", "npm run test -- --watch", "cat a.txt | wc -l"]
OTHER = ["echo $HOME", "for f in a b; do cat $f; done", "git commit -m \"$(cat <<'E'\nx\nE\n)\""]


class Empty:
    @hookimpl
    async def tools_authorize(self, call):
        return None


class Shell:
    @hookimpl
    def tools_register(self):
        @tool(name="bash")
        async def bash(command: str) -> str:
            """Run."""
            return ""

        return [bash]


async def best(action, times=1500):
    """The quickest single call: what others do on the machine cannot make one quicker."""
    found = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        await action()
        found = min(found, time.perf_counter() - start)
    return found * 1e6


def true_us(rounds=60):
    found = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(["/bin/true"], capture_output=True)
        found = min(found, time.perf_counter() - start)
    return found * 1e6


async def measured(plugin, commands, times, pause=0.0):
    config = HarnessConfig(autoload=False)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("x")
        async with Harness(config, plugins={"it": plugin, "shell": Shell()}, cwd=folder) as harness:
            agent = harness.agents.create()
            rows = {}
            for command in commands:
                arguments = {"command": command}
                call = Call("c", "bash", arguments, json.dumps(arguments), 1, 1)

                async def decide():
                    if agent.hooks.has(hookspecs.tool_effects):
                        await agent.hooks.collect(hookspecs.tool_effects, agent=agent, call=call)
                    return await agent.hooks.collect(hookspecs.tools_authorize, agent=agent, call=call)

                if not pause:
                    rows[command] = await best(decide, times=times)
                    continue
                found = float("inf")
                for _ in range(40):  # a person's model does not call twice in a millisecond
                    await asyncio.sleep(pause)
                    start = time.perf_counter()
                    await decide()
                    found = min(found, time.perf_counter() - start)
                rows[command] = found * 1e6
            return rows


async def main():
    plugin = lambda: Permission(settings=PermissionSettings(**RULES))
    empty = (await measured(Empty(), ["ls"], 2000))["ls"]
    plain = await measured(plugin(), PLAIN, 200)
    other = await measured(plugin(), OTHER, 1, pause=0.02)
    true = true_us()
    print(f"empty hook call      {empty:8.2f} µs\nstart of /bin/true   {true:8.0f} µs")
    fine = True
    for command, took in plain.items():
        fine &= took <= 150 * empty
        print(f"plain  {took:8.0f} µs  {took / empty:5.0f} × empty call  {command!r}")
    for command, took in other.items():
        fine &= took <= 3 * true
        print(f"other  {took:8.0f} µs  {took / true:5.1f} × /bin/true   {command!r}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
