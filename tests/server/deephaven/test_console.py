"""Scripts of Deephaven's clients: off unless asked for, for those who may do everything, one at a time, and bounded."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pyarrow as pa
import pytest
from barrage_proto import console_pb2
from barrage_proto import deephaven_pb2 as proto

from barrage_server.engine import Table
from barrage_server.errors import AuthenticationError, InvalidRequestError
from barrage_server.server import Limits, Principal, Right, Role, Server
from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.server.deephaven.computing import scope
from tests.server.deephaven.scripting import GATE, PASSED, Scripting, outcome, place
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_port=0, console=True) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Scripting]:
    client = Scripting(place(server))
    yield client
    client.disconnect()


def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value
    return error.code(), error.details()


class TestOff:
    def test_calls_say_how_it_is_switched_on(self) -> None:
        with Server(deephaven_port=0) as server:
            client = Scripting(place(server), start=False)
            assert client.types() == []
            for call in (client.start_console, lambda: client.run("1/0"), client.cancel, lambda: list(client.logs())):
                code, text = refusal(call)
                assert code is grpc.StatusCode.INVALID_ARGUMENT
                assert "console=True" in text
                assert "--console" in text
            client.disconnect()


class TestWhoMay:
    @pytest.mark.parametrize("wrong", [{}, {"deephaven_port": 0, "console": "yes"}])
    def test_the_setting_is_checked(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequestError, match="console"):
            Server(**{"console": True, **wrong})

    @pytest.mark.parametrize("allowed", [{"allow_anonymous": True, "allow_plaintext": True}, {"insecure": True}])
    def test_without_credentials_it_listens_on_this_machine_only(self, allowed: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequestError, match="Set a token, or listen on"):
            Server("0.0.0.0", deephaven_port=0, console=True, **allowed)
        with Server("0.0.0.0", deephaven_port=0, console=True, token="t", allow_plaintext=True):
            pass  # a token is enough

    def test_without_credentials_no_page_may_connect(self) -> None:
        with pytest.raises(InvalidRequestError, match="deephaven_web_port"):
            Server(deephaven_web_port=0, console=True)
        with Server(deephaven_web_port=0, console=True, token="t"):
            pass

    def test_the_log_warns(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING), Server(deephaven_port=0, console=True):
            pass
        assert "EVERY PROGRAM OF THIS MACHINE may run any Python" in caplog.text

    def test_it_takes_every_right_on_all_tables(self) -> None:
        roles = {
            "admin": Role(["*"], list(Right)),
            "reader": Role(["*"], ["list", "read"]),
            "of some": Role(["a*"], list(Right)),
            "of parts": Role(["*"], ["list", "read"], columns=["x"]),
        }

        def principal_of(credentials: Any) -> Principal:
            if credentials.secret not in roles:
                raise AuthenticationError("Show a token.")
            return Principal("someone", [credentials.secret])

        with Server(deephaven_port=0, console=True, token=principal_of, roles=roles) as server:
            for role in roles:
                client = Scripting(place(server), f"Bearer {role}", start=False)
                if role == "admin":
                    client.start_console()
                    assert client.types() == ["python"]
                    assert client.run("x = 1").error == ""
                else:
                    assert client.types() == []
                    assert refusal(client.start_console)[0] is grpc.StatusCode.PERMISSION_DENIED
                    assert refusal(lambda client=client: client.run("x = 1"))[0] is grpc.StatusCode.PERMISSION_DENIED
                client.disconnect()

    def test_who_has_lost_the_right_runs_and_reads_nothing_more(self) -> None:
        every = Role(["*"], list(Right))

        def principal_of(credentials: Any) -> Principal:
            return Principal("someone", [credentials.secret])

        with Server(deephaven_port=0, console=True, token=principal_of, roles={"old": every, "new": every}) as server:
            old, new = (Scripting(place(server), f"Bearer {role}") for role in ("old", "new"))
            running = old.begin("print('begun')\nwhile True:\n    pass")
            logs = old.logs()
            next(logs)
            waiting = old.begin("never = 1")
            server.reload(roles={"old": Role(["*"], ["list", "read"]), "new": every})
            assert refusal(lambda: next(logs))[0] is grpc.StatusCode.PERMISSION_DENIED
            assert "any more" in outcome(running.result()).error
            with suppress(grpc.RpcError):  # refused, when it came after that
                assert "any more" in outcome(waiting.result()).error
            assert "NameError" in new.run("never").error
            for client in (old, new):
                client.disconnect()

    def test_a_name_that_another_caller_binds_takes_the_place_of_no_variable(self) -> None:
        roles = {"admin": Role(["*"], list(Right)), "maker": Role(["*"], ["list", "read", "create", "drop"])}

        def principal_of(credentials: Any) -> Principal:
            return Principal("someone", [credentials.secret])

        with Server(deephaven_port=0, console=True, token=principal_of, roles=roles) as server:
            admin = Scripting(place(server), "Bearer admin")
            assert admin.run("def f():\n    return 1").error == ""
            maker = Scripting(place(server), "Bearer maker", start=False)
            server.append_table("quotes", {"x": "int64"}).append({"x": [1]})
            maker.where(1, scope("quotes"), ["x > 0"])
            maker.bind(1, "f")
            maker.bind(1, "len")
            assert admin.run("assert f() == 1; assert len([1]) == 1").error == ""
            for client in (admin, maker):
                client.disconnect()


class TestCommands:
    def test_variables_that_are_tables_are_tables_of_the_server(self, server: Server, client: Scripting) -> None:
        made = client.run("from deephaven import empty_table\nt = empty_table(3).update('x = ii')\n__own = t\nn = 5")
        assert (made.error, made.created, made.updated, made.removed) == ("", ["t"], [], [])
        assert made.kinds == {"Table"}
        assert 0 <= made.seconds < 30
        assert server.table("t").to_arrow().to_pydict() == {"x": [0, 1, 2]}
        assert client.run("t2 = t.where('x > 0'); assert n == 5").created == ["t2"]
        client.where(1, scope("t2"), ["x > 1"])
        assert client.read(1).to_pydict() == {"x": [2]}
        assert client.run("t = t2.head(1)").updated == ["t"]
        assert server.table("t").to_arrow().to_pydict() == {"x": [1]}
        assert client.run("t = t").updated == []
        gone = client.run("del t\nt2 = None")
        assert gone.removed == ["t", "t2"]
        assert list(server.tables()) == []

    def test_tables_of_the_server_are_names_in_scripts(self, server: Server, client: Scripting) -> None:
        quotes = server.append_table("quotes", {"x": "int64"})
        quotes.append({"x": [1, 2]})
        assert client.run("def larger():\n    return quotes.where('x > 1')\n\nq = larger()").error == ""
        quotes.append({"x": [3]})
        assert server.table("q").to_arrow().to_pydict() == {"x": [2, 3]}
        assert "NameError" in client.run("nothing").error

    def test_tables_of_the_server_keep_their_names(self, server: Server, client: Scripting) -> None:
        quotes = server.append_table("quotes", {"x": "int64"})
        refused = client.run("from deephaven import empty_table\nquotes = empty_table(3)")
        assert "'quotes' is not served" in refused.error
        assert refused.created == []
        assert client.run("assert quotes.size == 3").error == ""  # told once
        assert server.table("quotes") is quotes
        client.run("del quotes")
        assert server.table("quotes") is quotes

    def test_variables_are_those_of_all_sessions(self, server: Server, client: Scripting) -> None:
        client.run("from deephaven import empty_table\nt = empty_table(3)")
        client.close()
        other = Scripting(place(server))
        assert other.run("assert t.size == 3; t = t.head(2)").updated == ["t"]
        other.disconnect()

    def test_what_a_client_has_bound_is_a_variable(self, server: Server, client: Scripting) -> None:
        server.append_table("quotes", {"x": "int64"}).append({"x": [1, 2]})
        client.run("mine = 7")
        client.where(1, scope("quotes"), ["x > 1"])
        client.bind(1, "mine")
        assert client.run("assert mine.size == 1").error == ""
        assert client.run("mine = None").removed == ["mine"]
        assert [table.name for table in server.tables()] == ["quotes"]
        client.bind(1, "mine")
        client.bind(1, "mine")
        assert client.run("del mine").removed == ["mine"]

    def test_a_table_of_the_server_that_is_bound_to_its_own_name_stays(self, server: Server, client: Scripting) -> None:
        quotes = server.append_table("quotes", {"x": "int64"})
        for script in ("quotes = 5", "globals().pop('quotes', None)", "quotes = quotes.head(1)", "x = 1"):
            client.bind_ticket(scope_ticket("quotes"), "quotes")
            assert client.run(script).removed == []
            assert server.table("quotes") is quotes
        quotes.append({"x": [1]})

    @pytest.mark.parametrize("name", ["a-b", "my table", "class", "__own", "print", "len", "__builtins__", "__name__"])
    def test_a_bound_name_that_scripts_cannot_have_is_served_and_no_variable(
        self, server: Server, client: Scripting, name: str
    ) -> None:
        server.append_table("quotes", {"x": "int64"}).append({"x": [1, 2]})
        client.where(1, scope("quotes"), ["x > 1"])
        client.bind(1, name)
        other = Scripting(place(server))
        for caller in (client, other):
            ran = caller.run("print(len('a'))\nassert __name__ == '__main__'")
            assert (ran.error, ran.removed) == ("", [])
        assert server.table(name).to_arrow().to_pydict() == {"x": [2]}
        other.disconnect()

    def test_a_variable_may_be_of_any_kind(self, client: Scripting) -> None:
        assert client.run("import weakref\nclass C: pass\n\nx = weakref.proxy(C())").error == ""
        assert client.run("del x").error == ""

    def test_an_error_is_told_with_the_lines_of_the_script(self, client: Scripting) -> None:
        failed = client.run("def f(n):\n    return 1 / n\n\nx = 1\nf(0)")
        assert "ZeroDivisionError: division by zero" in failed.error
        assert "return 1 / n" in failed.error
        assert "barrage_server" not in failed.error.replace("barrage_server.", "")
        assert client.run("assert x == 1").error == ""  # what ran before it counts
        assert "SyntaxError" in client.run("x =").error
        assert "SystemExit" in client.run("exit(3)").error
        assert "null bytes" in client.run("x\0").error
        assert "UnknownColumnError" in client.run("from deephaven import *\nempty_table(1).where('y > 1')").error

    def test_an_error_that_cannot_be_shown_or_is_long_is_bounded(self, client: Scripting) -> None:
        hostile = "class E(Exception):\n    def __str__(self):\n        raise ValueError\n\nraise E"
        assert "E" in client.run(hostile).error
        assert len(client.run("raise ValueError('x' * 1_000_000)").error) < 20_000
        unnamed = (
            "class M(type):\n    __name__ = property(lambda s: 1 / 0)\n\nclass E(Exception, metaclass=M): pass\n\n"
        )
        assert "E" in client.run(f"{unnamed}raise E").error
        chained = "e = None\nfor n in range(30_000):\n    f = ValueError(n)\n    f.__context__ = e\n    e = f\nraise e"
        assert "ValueError: 29999" in client.run(chained).error

    def test_a_script_cannot_break_the_console_for_others(self, server: Server, client: Scripting) -> None:
        make = "__import__('deephaven').empty_table(1)"
        for script in (
            "globals().clear()",
            "__builtins__ = None",
            "del __name__",
            f"globals()[5] = globals()['a/b'] = globals()['\\ud800'] = {make}",
            f"globals()['x' * 5_000] = {make}",
            "__builtins__.clear()",
            "print('\\ud800')",
        ):
            client.run(script)
            again = Scripting(place(server))
            assert again.run(f"t = {make}\nprint(__name__)").error == "", script
            again.run("del t")
            again.disconnect()
        assert "\\ud800" in client.run("raise ValueError('\\ud800')").error
        assert all(table.name.isidentifier() for table in server.tables())

    def test_some_modules_and_built_in_names_are_refused(self, client: Scripting) -> None:
        assert "There is no module 'deephaven.plot'" in client.run("import deephaven.plot").error
        for name in ("input", "breakpoint"):
            assert f"There is no {name}()" in client.run(f"{name}()").error
        assert client.run("import math, deephaven.agg as agg\nassert agg.sum_ and math.pi").error == ""

    @pytest.mark.parametrize("ticket", [b"", b"s/t", export_ticket(7), b"e", b"h1"])
    def test_a_command_needs_a_console_of_its_session(self, client: Scripting, ticket: bytes) -> None:
        client.console = proto.Ticket(ticket=ticket)
        for call in (lambda: client.run("1"), client.cancel):
            code, text = refusal(call)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "no such console" in text

    def test_a_console_has_a_language_and_a_number_of_its_own(self, client: Scripting) -> None:
        assert "in use" in refusal(client.start_console)[1]
        client.release(1_000)
        assert "no such console" in refusal(lambda: client.run("1"))[1]
        assert "'groovy'" in refusal(lambda: client.start_console("groovy"))[1]
        for number in range(100):
            client.console = proto.Ticket(ticket=export_ticket(2_000 + number))
            client.start_console()
        client.console = proto.Ticket(ticket=export_ticket(3_000))
        assert refusal(client.start_console)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED

    def test_code_has_a_length(self, client: Scripting) -> None:
        assert refusal(lambda: client.run("#" * (2 << 20)))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


class TestStops:
    def test_cancel(self, server: Server, client: Scripting) -> None:
        running = client.begin("print('begun')\nwhile True:\n    pass")
        next(iter(client.logs()))
        waiting = client.begin("x = 1")
        client.cancel()
        assert outcome(running.result()).error == "The command was cancelled."
        assert outcome(waiting.result()).error in ("", "The command was cancelled.")  # it may have come after that
        assert client.run("x = 2").error == ""

    def test_time(self) -> None:
        with Server(deephaven_port=0, console=True, limits=Limits(console_seconds=0.05)) as server:
            client = Scripting(place(server))
            assert "0.05 s (console_seconds)" in client.run("while True:\n    pass").error
            assert (
                "console_seconds"
                in client.run("from deephaven import time_table\ntime_table('PT1H').await_update()").error
            )
            client.disconnect()

    @pytest.mark.parametrize("method", ["def __str__(self)", "@property\n    def __cause__(self)"])
    def test_an_error_whose_text_does_not_end_is_stopped(self, client: Scripting, method: str) -> None:
        spin = "print('begun')\n        while True:\n            pass"
        running = client.begin(f"class E(Exception):\n    {method}:\n        {spin}\n\nraise E")
        next(iter(client.logs()))
        client.cancel()
        told = outcome(running.result()).error
        assert "E" in told
        assert told.endswith("\nThe command was cancelled.")
        assert client.run("x = 1").error == ""

    def test_a_console_that_is_released_stops_its_commands(self, client: Scripting) -> None:
        running = client.begin("print('begun')\nwhile True:\n    pass")
        next(iter(client.logs()))
        client.release(1_000)
        assert outcome(running.result()).error == "The console was released."

    def test_a_caller_that_goes_stops_its_command(self, server: Server, client: Scripting) -> None:
        running = client.begin("print('begun')\nwhile True:\n    pass")
        next(iter(client.logs()))
        running.cancel()
        assert client.run("x = 1").error == ""

    def test_a_session_that_ends_stops_its_command(self, server: Server, client: Scripting) -> None:
        running = client.begin("print('begun')\nwhile True:\n    pass")
        next(iter(client.logs()))
        client.close()
        assert running.exception() is not None
        other = Scripting(place(server))
        assert other.run("x = 1").error == ""
        other.disconnect()

    def test_the_server_stops_with_a_command_that_runs(self) -> None:
        with Server(deephaven_port=0, console=True) as server:
            client = Scripting(place(server))
            running = client.begin("print('begun')\nwhile True:\n    pass")
            next(iter(client.logs()))
        assert running.exception() is not None
        until(lambda: "barrage-console" not in {thread.name for thread in threading.enumerate()})
        client.disconnect()

    def test_code_that_catches_everything_is_stopped_again(self, server: Server, client: Scripting) -> None:
        code = "n = 0\nwhile n < 2:\n    try:\n        print('begun')\n        while True:\n            pass\n"
        running = client.begin(code + "    except BaseException:\n        n += 1")
        next(iter(client.logs()))
        client.cancel()
        assert outcome(running.result()).error == "The command was cancelled."

    def test_a_command_that_waits_is_cancelled_at_once(self, server: Server, client: Scripting) -> None:
        running = client.begin("print('begun')\nwhile True:\n    pass")
        next(iter(client.logs()))
        other = Scripting(place(server))
        waiting = other.begin("never = 1")

        def is_cancelled() -> bool:
            other.cancel()  # it may come before the command
            return bool(waiting.done())

        until(is_cancelled)
        assert outcome(waiting.result()).error == "The command was cancelled."
        assert not running.done()
        client.cancel()
        assert "NameError" in client.run("never").error
        other.disconnect()

    @pytest.mark.slow
    def test_a_command_that_does_not_stop_is_told_of_and_others_are_refused(self) -> None:
        GATE.clear()
        with Server(deephaven_port=0, console=True, limits=Limits(console_seconds=1)) as server:
            client = Scripting(place(server))
            stuck = client.begin("from tests.server.deephaven.scripting import GATE\nprint('begun')\nGATE.wait()")
            next(iter(client.logs()))
            waiting = client.begin("x = 1")
            assert refusal(stuck.result)[0] is grpc.StatusCode.DEADLINE_EXCEEDED
            assert "does not" in outcome(waiting.result()).error
            assert refusal(lambda: client.run("x = 1"))[0] is grpc.StatusCode.UNAVAILABLE
            GATE.set()

            def runs() -> bool:
                try:
                    return client.run("x = 1").error == ""
                except grpc.RpcError:
                    return False

            until(runs)
            client.disconnect()

    def test_a_thread_of_a_script_goes_on_when_a_command_is_stopped(self, server: Server, client: Scripting) -> None:
        GATE.clear()
        PASSED.clear()
        begun = client.run(
            "from tests.server.deephaven.scripting import GATE, PASSED\nfrom deephaven import empty_table\n"
            "import threading\n"
            "def work():\n    GATE.wait()\n    assert empty_table(2).head(1).size == 1\n    PASSED.set()\n\n"
            "threading.Thread(target=work, daemon=True).start()"
        )
        assert begun.error == ""
        running = client.begin("print('begun')\nwhile True:\n    pass")
        next(iter(client.logs()))
        client.cancel()
        assert outcome(running.result()).error == "The command was cancelled."
        GATE.set()
        assert PASSED.wait(20)

    def test_few_commands_wait(self) -> None:
        with Server(deephaven_port=0, console=True, limits=Limits(console_commands=2)) as server:
            client = Scripting(place(server))
            running = client.begin("print('begun')\nwhile True:\n    pass")
            next(iter(client.logs()))
            waiting = [client.begin(f"x{number} = 1") for number in range(3)]
            until(lambda: any(call.done() for call in waiting))
            refused = [call for call in waiting if call.done()]
            assert [call.code() for call in refused] == [grpc.StatusCode.RESOURCE_EXHAUSTED]
            assert "console_commands" in refused[0].details()
            running.cancel()
            for call in waiting:
                if call not in refused:
                    assert outcome(call.result()).error == ""
            client.disconnect()


class TestOutput:
    def test_what_is_printed_is_for_subscribers(self, server: Server, client: Scripting) -> None:
        client.run("import sys\nprint('a', 1)\nprint('b', file=sys.stderr)\nprint('c', end='')")
        logs = client.logs()
        lines = [console_pb2.LogSubscriptionData.FromString(next(logs)) for _ in range(3)]
        assert [(line.log_level, line.message) for line in lines] == [
            ("STDOUT", "a 1"),
            ("STDERR", "b"),
            ("STDOUT", "c"),
        ]
        client.run("print('d')")
        last = console_pb2.LogSubscriptionData.FromString(next(logs))
        assert last.message == "d"
        assert last.micros > lines[-1].micros
        logs.cancel()
        later = client.logs(lines[1].micros, ["STDOUT"])
        assert console_pb2.LogSubscriptionData.FromString(next(later)).message == "c"
        later.cancel()


class TestMemory:
    def test_tables_are_freed_with_their_variables(self, server: Server, client: Scripting) -> None:
        def tables() -> int:
            gc.collect()
            return sum(issubclass(type(found), Table) and found.graph is server.graph for found in gc.get_objects())

        for _ in range(3):
            client.run("from deephaven import *\nt = new_table({'x': [1, 2, 3]})\nt2 = t.update('y = x')\nt3 = t2")
            assert tables() > 0
            client.run("t = t2 = t3 = None")
            until(lambda: tables() == 0)
        client.run("t = time_table('PT1H')")
        server.drop("t")
        until(lambda: tables() == 0)
        client.run("def f():\n    own = empty_table(1)\n    1 / 0\n\nf()")
        until(lambda: tables() == 0)
        client.run("t = new_table({'x': [1]})")
        server.close()
        assert isinstance(server.table("t").to_arrow(), pa.Table)
