"""The websocket front: clients that take nothing, and a server that stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barrage_server.errors import UnavailableError
from barrage_server.server.deephaven.call import CODES, Call, Status
from barrage_server.server.deephaven.web_endpoint import WebEndpoint
from tests.server.deephaven.web_client import Waiting, WebClient, bounded, echo, serving, standstill

MEGABYTE = 1 << 20


class TestBackPressure:
    def test_a_write_waits_until_the_client_takes_it(self) -> None:
        async def body() -> None:
            written = 0

            async def service(call: Call) -> Status:
                nonlocal written
                for _ in range(64):
                    await call.write(bytes(MEGABYTE))
                    written += 1
                return Status.OK

            async with serving(service) as (_, url), WebClient.at(url, reading=False) as client:
                stream = await client.open("a/b")
                await standstill(lambda: written)
                assert 0 < written < 64, "the buffers of the system take a few megabytes, and no more is made"
                reader = asyncio.create_task(client.read())
                answer = await client.answers[stream].end()
                assert sum(map(len, answer.messages)) == 64 * MEGABYTE
                reader.cancel()

        bounded(body)

    def test_a_client_that_takes_nothing_loses_its_connection(self) -> None:
        async def body() -> None:
            ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

            async def service(call: Call) -> Status:
                try:
                    while True:
                        await call.write(bytes(MEGABYTE))
                except (UnavailableError, asyncio.CancelledError) as error:
                    ended.set_result(error)
                    raise

            async with (
                serving(service, slow_client_seconds=0.3) as (front, url),
                WebClient.at(url, reading=False) as client,
            ):
                await client.open("a/b")
                await ended
                await asyncio.wait_for(front.stop(0), 5)

        bounded(body)

    def test_unread_requests_stay_with_the_client(self) -> None:
        async def body() -> None:
            go = asyncio.Event()
            got = 0

            async def service(call: Call) -> Status:
                nonlocal got
                await go.wait()
                while (message := await call.read()) is not None:
                    got += len(message)
                await call.write(str(got).encode())
                return Status.OK

            async with serving(service, unread_bytes=MEGABYTE) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                sent: list[int] = []
                sending = asyncio.create_task(send_many(client, stream, 64, sent.append))
                await standstill(lambda: (len(sent), client.socket.transport.get_write_buffer_size()))
                assert 0 < len(sent) < 64, "not everything fits the buffers"
                go.set()
                await sending
                answer = await client.answers[stream].end()
                assert answer.messages == [str(64 * MEGABYTE).encode()]

        bounded(body)

    def test_a_client_that_goes_while_its_requests_wait_leaves_nothing(self) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service, unread_bytes=1000) as (front, url):
                async with WebClient.at(url) as client:
                    stream = await client.open("a/b")
                    await service.begun.acquire()
                    await client.send(stream, bytes(2000))
                    await client.send(stream, bytes(2000))
                    client.socket.transport.abort()
                await asyncio.wait(service.tasks)
                assert front.streams == 0

        bounded(body)

    def test_a_call_that_is_cut_before_its_headers_went_out_sends_them_all_the_same(self) -> None:
        async def body() -> None:
            tasks: dict[str, asyncio.Task[object]] = {}
            begun = asyncio.Event()

            async def service(call: Call) -> Status:
                task = asyncio.current_task()
                assert task is not None
                tasks[call.method] = task
                if call.method == "/a/large":
                    while True:
                        await call.write(bytes(MEGABYTE))
                asyncio.get_running_loop().call_soon(begun.set)
                await call.send_headers([("name", "value")])
                return Status.OK

            async with serving(service) as (_, url), WebClient.at(url, reading=False) as client:
                await client.open("a/large")
                small = await client.open("a/small")
                await begun.wait()
                tasks["/a/small"].cancel()
                reader = asyncio.create_task(client.read())
                answer = await client.answers[small].end()
                assert answer.headers == {"name": "value"}
                reader.cancel()

        bounded(body)


async def send_many(client: WebClient, stream: int, count: int, told: Callable[[int], object]) -> None:
    """Send ``count`` messages, and tell the number of each one that was sent."""
    for number in range(count):
        await client.send(stream, bytes(MEGABYTE))
        told(number)
    await client.finish(stream)


class TestStop:
    def test_clients_are_told_and_may_finish_what_they_do(self) -> None:
        async def body() -> None:
            async with serving(echo) as (front, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                await client.send(stream, b"x")
                await client.answers[stream].until(lambda answer: bool(answer.messages))
                stopping = asyncio.create_task(front.stop(10))
                await client.went_away.wait()
                await client.acknowledge()
                await client.send(stream, b"y")
                await client.finish(stream)
                assert (await client.answers[stream].end()).messages == [b"x", b"y"]
                await client.socket.close()
                await asyncio.wait_for(stopping, 5)
                assert front.connections == 0

        bounded(body)

    def test_calls_that_do_not_end_are_cut_with_word(self) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service) as (front, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                await service.begun.acquire()
                await asyncio.wait_for(front.stop(0.1), 5)
                answer = await client.answers[stream].end()
                assert answer.status == CODES["UNAVAILABLE"]
                await client.socket.wait_closed()
                assert client.socket.close_code == 1001
                assert service.cancelled == 1

        bounded(body)

    def test_a_visitor_that_says_nothing_does_not_hold_it_up(self) -> None:
        """Stopping ends in bounded time."""

        async def body() -> None:
            async with serving(echo) as (front, url):
                host, port = url.removeprefix("ws://").split(":")
                _, writer = await asyncio.open_connection(host, int(port))
                async with WebClient.at(url) as client:  # by now the visitor has been let in
                    await client.call("a/b")
                await asyncio.wait_for(front.stop(0), 5)
                writer.close()

        bounded(body)

    def test_a_client_that_does_not_read_does_not_hold_it_up(self) -> None:
        """Stopping ends in bounded time."""

        async def body() -> None:
            begun = asyncio.Event()

            async def service(call: Call) -> Status:
                while True:
                    begun.set()
                    await call.write(bytes(MEGABYTE))

            async with serving(service) as (front, url), WebClient.at(url, reading=False) as client:
                await client.open("a/b")
                await begun.wait()
                await asyncio.wait_for(front.stop(0.1), 10)

        bounded(body)

    def test_a_front_that_was_never_started_or_is_stopped_stops_again(self) -> None:
        """``stop`` returns, and raises nothing."""

        async def body() -> None:
            await WebEndpoint(echo).stop(1)

        bounded(body)
