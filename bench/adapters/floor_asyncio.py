"""What `dsh --help` is compared with: a Python that imports asyncio and ends."""
META = dict(name="python -c 'import asyncio'", dist=None, venv="floor", pip=[], python="3.11", imports="import asyncio", floor=True, cli=["python", "-c", "import asyncio"], scenarios=["cli"])
