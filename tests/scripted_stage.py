"""Asks a scripted model and gathers what it plays."""

from dsh_core.chunks import BlockAssembler
from dsh_core.content import Text
from dsh_core.messages import Message
from dsh_core.request import Request, ToolSchema


def asking(text="hello", *, session_id=None, history=(), tools=(), system=""):
    last = Message("user", (Text(text),))
    schemas = tuple(ToolSchema(name, "", {"type": "object"}) for name in tools)
    return Request(
        "demo/any", (*history, last), session_id=session_id, tools=schemas, system=system
    )


async def played(model, request=None):
    return [chunk async for chunk in model.stream(request or asking())]


async def said(model, request=None):
    assembler = BlockAssembler()
    for chunk in await played(model, request):
        assembler.feed(chunk)
    return "".join(block.text for block in assembler.blocks() if isinstance(block, Text))
