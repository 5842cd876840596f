"""The websocket front: many calls over one websocket, from any client and with any end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.server.deephaven.call import CODES, Call, Status
from barrage_server.server.deephaven.web_front import WebFront
from barrage_server.wire.families import ClientFamily
from tests.server.deephaven.web_client import WebClient, bounded, serving

MEGABYTE = 1 << 20


async def echo(call: Call) -> Status:
    """Answers every message with itself."""
    while (message := await call.read()) is not None:
        await call.write(message)
    return Status.OK


class Waiting:
    """A service whose calls report their begin, and then wait without end."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.cancelled = 0
        self.tasks: list[asyncio.Task[object]] = []

    async def __call__(self, call: Call) -> Status:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        self.begun.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Status.OK


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


class TestBackPressure:
    def test_a_write_waits_until_the_client_takes_it(self) -> None:
        async def body() -> None:
            written = 0
            progress = asyncio.Event()

            async def service(call: Call) -> Status:
                nonlocal written
                for _ in range(64):
                    await call.write(bytes(MEGABYTE))
                    written += 1
                    progress.set()
                return Status.OK

            async def until_it_stands_still() -> None:
                with contextlib.suppress(TimeoutError):
                    while True:
                        await asyncio.wait_for(progress.wait(), 0.5)
                        progress.clear()

            async with serving(service) as (_, url), WebClient.at(url, reading=False) as client:
                stream = await client.open("a/b")
                await until_it_stands_still()
                assert written < 64, "the buffers of the system take a few megabytes, and no more is made"
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
                sending = asyncio.create_task(send_many(client, stream, 64))
                _, pending = await asyncio.wait({sending}, timeout=0.5)
                assert pending, "not everything fits the buffers"
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


async def send_many(client: WebClient, stream: int, count: int) -> None:
    for _ in range(count):
        await client.send(stream, bytes(MEGABYTE))
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
            await WebFront(echo).stop(1)

        bounded(body)


class TestHttp:
    @pytest.mark.parametrize(
        ("path", "status", "says"),
        [
            ("/", 200, "dh.CoreClient"),
            ("/?x=y", 200, "dh.CoreClient"),
            ("/jsapi/dh-core.js", 404, "not shipped here"),
            ("/ide/", 404, "nothing here but websockets"),
        ],
    )
    def test_plain_http_requests_are_told_what_this_is(self, path: str, status: int, says: str) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url):
                got, text = await asyncio.to_thread(fetch, url.replace("ws:", "http:") + path)
                assert (got, says in text) == (status, True)

        bounded(body)

    def test_other_subprotocols_are_refused(self) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url):
                with pytest.raises(InvalidStatus) as refused:
                    async with connect(url, subprotocols=[Subprotocol("grpc-websockets")], proxy=None):
                        pass
                assert refused.value.response.status_code == 400

        bounded(body)

    @pytest.mark.parametrize("allowed", [(), "https://other.example"])
    def test_without_credentials_pages_of_strangers_are_refused(self, allowed: str | tuple[str, ...]) -> None:
        async def body() -> None:
            async with serving(echo, origins=allowed) as (_, url):
                with pytest.raises(InvalidStatus) as refused:
                    async with WebClient.at(url, origin="https://elsewhere.example"):
                        pass
                assert refused.value.response.status_code == 403
                assert b"deephaven_web_origins" in (refused.value.response.body or b"")
                for origin in (None, "http://localhost:3000"):
                    async with WebClient.at(url, origin=origin) as client:
                        assert (await client.call("a/b", b"x")).messages == [b"x"]

        bounded(body)

    def test_with_credentials_pages_of_any_origin_may_connect_because_a_browser_adds_none(self) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url), WebClient.at(url, origin="https://elsewhere.example") as client:
                assert (await client.call("a/b", b"x")).messages == [b"x"]

        bounded(body)


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class TestListening:
    def test_it_serves_tls_and_leaves_no_key_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)

        async def body() -> None:
            front = WebFront(echo)
            port = await front.start("127.0.0.1", 0, (chain, certificate.private_key_pem.bytes()))
            try:
                assert list(tmp_path.iterdir()) == []
                async with WebClient.at(f"wss://127.0.0.1:{port}", tls=trusting) as client:
                    assert (await client.call("a/b", b"x")).messages == [b"x"]
            finally:
                await front.stop(0)

        bounded(body)

    @pytest.mark.parametrize("damage", [lambda pem: b"nonsense", lambda pem: pem[:100], lambda pem: b""])
    def test_a_certificate_that_cannot_be_used_is_refused(
        self, damage: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        certificate = trustme.CA().issue_cert("127.0.0.1")

        async def body() -> None:
            with pytest.raises(InvalidRequestError, match="TLS"):
                await WebFront(echo).start(
                    "127.0.0.1",
                    0,
                    (certificate.cert_chain_pems[0].bytes(), damage(certificate.private_key_pem.bytes())),
                )

        bounded(body)
        assert list(tmp_path.iterdir()) == []

    def test_a_port_that_is_taken_is_said_to_be(self) -> None:
        async def body() -> None:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                with pytest.raises(UnavailableError, match="in use"):
                    await WebFront(echo).start("127.0.0.1", taken.getsockname()[1])

        bounded(body)

    def test_a_name_with_several_addresses_gets_one_free_port(self) -> None:
        async def body() -> None:
            front = WebFront(echo)
            port = await front.start("localhost", 0)
            try:
                async with WebClient.at(f"ws://localhost:{port}") as client:
                    assert (await client.call("a/b", b"x")).messages == [b"x"]
            finally:
                await front.stop(0)

        bounded(body)
