"""Exports of a session: a call that uses a number waits for it, or gets the reason why there is none."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import InvalidRequestError, LimitError, UnavailableError, WireFormatError
from barrage_server.server.deephaven.exports import Exports
from barrage_server.server.export_counts import ExportCounts

TABLE = AppendTable(UpdateGraph(), "t", pa.schema([("a", pa.int64())]))


def test_a_number_may_be_asked_for_before_it_is_defined_and_before_its_table_is_there() -> None:
    async def run() -> None:
        session = Exports()
        asked = [asyncio.ensure_future(session.resolve(1)) for _ in range(3)]
        await asyncio.sleep(0)
        future = session.reserve(1)
        await asyncio.sleep(0)
        assert not any(entry.done() for entry in asked)
        assert session.tables() == {}
        future.set_result(TABLE)
        assert await asyncio.gather(*asked) == [TABLE] * 3
        assert session.tables() == {1: TABLE}

    asyncio.run(run())


def test_a_call_gets_the_reason_why_an_export_failed() -> None:
    async def run() -> None:
        session = Exports()
        session.reserve(1).set_exception(WireFormatError("It broke."))
        for _ in range(2):
            with pytest.raises(WireFormatError, match="It broke"):
                await session.resolve(1)
        assert session.tables() == {}

    asyncio.run(run())


def test_a_number_that_was_released_is_not_waited_for() -> None:
    async def run() -> None:
        session = Exports()
        session.define(1, TABLE)
        session.release(1)
        session.release(1)
        with pytest.raises(InvalidRequestError, match="was released"):
            await asyncio.wait_for(session.resolve(1), 1)
        waiting = session.reserve(2)
        asked = asyncio.ensure_future(session.resolve(2))
        await asyncio.sleep(0)
        session.close()
        assert waiting.done()
        with pytest.raises(UnavailableError, match="before it was complete"):
            await asked
        session.define(1, TABLE)
        assert await session.resolve(1) is TABLE

    asyncio.run(run())


def test_waiting_for_an_undefined_number_ends() -> None:
    async def run() -> None:
        session = Exports()
        session.wait_seconds = 0.01
        session.define(2, TABLE)
        with pytest.raises(InvalidRequestError, match="no call has defined it"):
            await session.resolve(1)
        with pytest.raises(InvalidRequestError, match="in use"):
            session.define(2, TABLE)

    asyncio.run(run())


def test_each_call_that_waits_for_a_number_waits_for_its_own_time() -> None:
    """One that gives up, or is cut off, takes nothing from those that came later."""

    async def run() -> None:
        session = Exports()
        session.wait_seconds = 0.05
        first = asyncio.ensure_future(session.resolve(7))
        cancelled = asyncio.ensure_future(session.resolve(7))
        await asyncio.sleep(0)
        session.wait_seconds = 30.0
        later = [asyncio.ensure_future(session.resolve(7)) for _ in range(2)]
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(InvalidRequestError, match="no call has defined it"):
            await first
        assert not any(entry.done() for entry in later)
        session.define(7, TABLE)
        session.release(7)  # before those that wait have had a turn
        assert await asyncio.gather(*later) == [TABLE] * 2
        assert session.awaited == 0

    asyncio.run(run())


def test_a_call_that_is_cut_off_leaves_nothing() -> None:
    async def run() -> None:
        session = Exports()
        asked = [asyncio.ensure_future(session.resolve(number)) for number in range(100)]
        await asyncio.sleep(0)
        for entry in asked:
            entry.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert session.awaited == 0

    asyncio.run(run())


def test_a_session_has_no_more_exports_than_it_may() -> None:
    async def run() -> None:
        session = Exports(2)
        for number in (1, 2):
            session.define(number, TABLE)
        for define in (session.reserve, lambda number: session.define(number, TABLE)):
            with pytest.raises(LimitError, match="2 exports"):
                define(3)
        session.release(1)
        session.define(3, TABLE)
        assert len(session) == 2

    asyncio.run(run())


def test_exports_are_counted_by_caller_and_in_all_as_long_as_their_sessions_live() -> None:
    async def run() -> None:
        counts = ExportCounts(total=5, per_caller=3)
        first, second, others, anyones = (Exports(counts=counts) for _ in range(4))
        for session, owner in ((first, "a"), (second, "a"), (others, "b"), (anyones, "")):
            session.keep(owner)
        for number in (1, 2):
            first.define(number, TABLE)
        second.define(1, TABLE)
        with pytest.raises(LimitError, match=r"3 exports \(exports_per_caller\)"):
            second.define(2, TABLE)
        others.define(1, TABLE)
        anyones.define(1, TABLE)
        with pytest.raises(LimitError, match=r"5 exports \(total_exports\)"):
            anyones.define(2, TABLE)
        first.release(1)
        first.release(1)
        second.reserve(2)
        for session in (first, second, others, anyones):
            session.close()
            session.define(9, TABLE)  # by a call that was on its way
        assert counts.total == 0

    asyncio.run(run())


def test_a_call_without_a_session_waits_for_no_other_call() -> None:
    async def run() -> None:
        guest = Exports(may_come=False)
        with pytest.raises(InvalidRequestError, match="belongs to no session"):
            await asyncio.wait_for(guest.resolve(1), 1)
        guest.define(1, TABLE)
        assert await guest.resolve(1) is TABLE

    asyncio.run(run())
