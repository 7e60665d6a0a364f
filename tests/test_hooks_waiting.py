"""`within`: waiting for no longer than one wants to."""

from __future__ import annotations

import asyncio

import pytest

from dsh_core.hooks.dispatch import DeadlineError, within


async def test_within_gives_the_result_or_the_very_exception() -> None:
    async def seven() -> int:
        return 7

    async def fail() -> int:
        raise KeyError("k")

    assert await within(5, seven()) == 7
    with pytest.raises(KeyError):
        await within(5, fail())


async def test_within_lets_work_end_before_it_gives_up_when_told_to() -> None:
    ended = []

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(DeadlineError):
        await within(0.01, slow_to_end(), grace_seconds=5)
    assert ended == [True]


async def test_within_that_is_cancelled_cancels_its_work_and_waits_for_it() -> None:
    ended = []
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    task = asyncio.create_task(within(60, work()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_within_that_is_cancelled_before_its_work_began_leaves_no_coroutine() -> None:
    async def work() -> None: ...

    async def caller() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await within(60, work())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(caller())
