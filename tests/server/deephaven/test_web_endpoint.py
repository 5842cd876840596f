"""The websocket front: many calls over one websocket, from any client, and what each may use."""

from __future__ import annotations

import asyncio
import logging

import pytest
from websockets.exceptions import InvalidStatus

from barrage_server.server.deephaven.call import CODES, Call, Status
from barrage_server.wire.families import ClientFamily
from tests.server.deephaven.web_client import Waiting, WebClient, bounded, echo, serving


class TestCalls:
    def test_a_service_sees_its_caller_and_its_answer_has_headers_messages_and_trailers(self) -> None:
        seen: list[Call] = []

        async def service(call: Call) -> Status:
            seen.append(call)
            assert await call.read() == b"question"
            assert await call.read() is None
            await call.send_headers([("authorization", "Bearer token")])
            await call.write(b"one")
            await call.write(b"")
            return Status.OK

        async def body() -> None:
            async with serving(service) as (_, url), WebClient.at(url) as client:
                answer = await client.call("pkg.Service/Method", b"question", Authorization="Basic x")
                assert answer.headers == {"authorization": "Bearer token"}
                assert answer.messages == [b"one", b""]
                assert answer.trailers == {"grpc-status": "0"}
                port = client.socket.local_address[1]
            [call] = seen
            assert call.method == "/pkg.Service/Method"
            assert call.metadata == {"authorization": "Basic x"}
            assert call.peer == f"127.0.0.1:{port}"
            assert call.family is ClientFamily.JAVASCRIPT

        bounded(body)

    def test_headers_come_first_also_when_there_is_nothing_else(self) -> None:
        async def service(_: Call) -> Status:
            return Status.of("NOT_FOUND", "no such täble: 100%\n")

        async def body() -> None:
            async with serving(service) as (_, url), WebClient.at(url) as client:
                answer = await client.call("a/b")
                assert answer.headers == {}
                assert answer.trailers == {"grpc-status": "5", "grpc-message": "no such table - 100 percent "}

        bounded(body)

    def test_a_call_that_waits_does_not_hold_up_the_others(self) -> None:
        async def body() -> None:
            async with serving(echo) as (front, url), WebClient.at(url) as client:
                first, second = await client.open("a/b"), await client.open("a/b")
                await client.send(second, b"2")
                await client.answers[second].until(lambda answer: answer.messages == [b"2"])
                assert client.answers[first].headers is None
                await client.send(first, b"1")
                await client.finish(first)
                assert (await client.answers[first].end()).messages == [b"1"]
                assert front.streams == 1
                await client.finish(second)
                assert (await client.answers[second].end()).status == 0

        bounded(body)

    def test_a_hundred_calls_at_a_time_keep_their_messages_apart_and_in_order(self) -> None:
        async def one(client: WebClient, number: int) -> None:
            messages = [f"{number}-{count}".encode() for count in range(20)]
            stream = await client.open("a/b")
            for message in messages:
                await client.send(stream, message)
            await client.finish(stream)
            assert (await client.answers[stream].end()).messages == messages

        async def body() -> None:
            async with serving(echo) as (front, url), WebClient.at(url) as client:
                await asyncio.gather(*(one(client, number) for number in range(100)))
                assert front.connections == 1

        bounded(body)

    def test_a_fault_of_the_service_ends_its_call_alone_and_tells_nothing_of_itself(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def service(call: Call) -> Status:
            if call.method == "/a/bad":
                raise KeyError("secret")
            return await echo(call)

        async def body() -> None:
            async with serving(service) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/good")
                answer = await client.call("a/bad")
                assert answer.status == CODES["INTERNAL"]
                assert answer.trailers is not None
                assert "secret" not in answer.trailers["grpc-message"]
                await client.send(stream, b"still there")
                await client.answers[stream].until(lambda answer: answer.messages == [b"still there"])

        with caplog.at_level(logging.CRITICAL, logger="barrage_server.server"):
            bounded(body)

    def test_what_comes_after_the_service_has_ended_a_call_is_ignored(self) -> None:
        async def service(call: Call) -> Status:
            return Status.OK if call.method == "/a/short" else await echo(call)

        async def body() -> None:
            async with serving(service) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/short")
                await client.answers[stream].end()
                await client.send(stream, b"late")
                await client.finish(stream)
                assert (await client.call("a/echo", b"x")).messages == [b"x"]

        bounded(body)

    def test_headers_are_sent_once(self) -> None:
        async def service(call: Call) -> Status:
            await call.write(b"x")
            await call.send_headers([])
            return Status.OK

        async def body() -> None:
            async with serving(service) as (_, url), WebClient.at(url) as client:
                assert (await client.call("a/b")).status == CODES["INTERNAL"]

        bounded(body)


class TestEnds:
    def test_a_socket_that_drops_cancels_all_its_calls(self) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service) as (front, url):
                async with WebClient.at(url) as client:
                    for _ in range(3):
                        await client.open("a/b")
                        await service.begun.acquire()
                    assert (front.connections, front.streams) == (1, 3)
                    client.socket.transport.abort()
                await asyncio.wait(service.tasks)
                assert service.cancelled == 3
                assert front.streams == 0

        bounded(body)

    def test_a_call_that_the_server_cuts_ends_with_a_status(self) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                await service.begun.acquire()
                service.tasks[0].cancel()
                assert (await client.answers[stream].end()).status == CODES["CANCELLED"]

        bounded(body)

    @pytest.mark.parametrize(
        "frame", [b"\0\0\0\1", b"\0\0\0\1no headers\r\n", b"\0\0\0\1\0\0\0\0\0\0", "text", b"\x7f\xff\xff\xff\0"]
    )
    def test_a_damaged_frame_ends_the_connection_with_a_reason(self, frame: bytes | str) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service) as (front, url), WebClient.at(url) as client:
                await client.open("a/b")
                await service.begun.acquire()
                await client.socket.send(frame)
                await client.socket.wait_closed()
                assert client.socket.close_code == 1002
                assert client.socket.close_reason
                await asyncio.wait(service.tasks)
                assert front.streams == 0

        bounded(body)


class TestLimits:
    def test_a_message_that_is_too_large_ends_its_call_alone(self) -> None:
        async def body() -> None:
            async with serving(echo, message_bytes=1000) as (_, url), WebClient.at(url) as client:
                other = await client.open("a/b")
                # its length alone tells
                stream = await client.open("a/b")
                await client.socket.send(bytes([0, 0, 0, stream, 0, 0, 0, 0, 4, 0]))
                answer = await client.answers[stream].end()
                assert answer.status == CODES["RESOURCE_EXHAUSTED"]
                await client.send(other, b"x" * 1000)
                await client.answers[other].until(lambda answer: len(answer.messages) == 1)

        bounded(body)

    def test_a_call_whose_first_message_is_bad_ends_with_a_status(self) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                await client.socket.send(bytes([0, 0, 0, stream, 0, 1, 0, 0, 0, 0]))
                assert (await client.answers[stream].end()).status == CODES["INVALID_ARGUMENT"]

        bounded(body)

    def test_a_frame_that_is_too_large_ends_the_connection(self) -> None:
        async def body() -> None:
            async with serving(echo, message_bytes=1000) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                await client.send(stream, b"x" * 2000)
                await client.socket.wait_closed()
                assert client.socket.close_code == 1009

        bounded(body)

    def test_one_call_too_many_is_refused_and_told_why(self) -> None:
        async def body() -> None:
            async with serving(echo, streams=1) as (_, url), WebClient.at(url) as client:
                first = await client.open("a/b")
                answer = await client.call("a/b")
                assert answer.headers == {}
                assert answer.status == CODES["RESOURCE_EXHAUSTED"]
                await client.finish(first)
                await client.answers[first].end()
                assert (await client.call("a/b")).status == 0

        bounded(body)

    def test_calls_that_only_wait_for_an_answer_count_too(self) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service, streams=2) as (front, url), WebClient.at(url) as client:
                for _ in range(2):
                    await client.finish(await client.open("a/b"))
                    await service.begun.acquire()
                assert (await client.call("a/b")).status == CODES["RESOURCE_EXHAUSTED"]
                assert front.streams == 2

        bounded(body)

    def test_a_stream_that_is_being_answered_cannot_be_opened_again(self) -> None:
        async def body() -> None:
            service = Waiting()
            async with serving(service) as (_, url), WebClient.at(url) as client:
                stream = await client.open("a/b")
                await client.finish(stream)
                await service.begun.acquire()
                await client.socket.send(bytes([0, 0, 0, stream]) + b"grpc-websockets-path: a/b\r\n")
                await client.socket.wait_closed()
                assert client.socket.close_code == 1002

        bounded(body)

    def test_one_connection_too_many_is_refused(self) -> None:
        async def body() -> None:
            async with serving(echo, connections=1) as (_, url), WebClient.at(url) as client:
                await client.call("a/b")
                with pytest.raises(InvalidStatus) as refused:
                    async with WebClient.at(url):
                        pass
                assert refused.value.response.status_code == 503

        bounded(body)
