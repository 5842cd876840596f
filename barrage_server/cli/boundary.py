"""The boundary of the command line: exit codes, one-line errors, and Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Final, NoReturn

import typer

from barrage_server.cli.text import sentence
from barrage_server.cli.usage import UsageError
from barrage_server.errors import BarrageError
from barrage_server.log import one_line

__all__ = [
    "EXIT_FAILURE",
    "EXIT_INTERRUPTED",
    "EXIT_SUCCESS",
    "EXIT_TERMINATED",
    "EXIT_USAGE",
    "Terminated",
    "end_within",
    "main",
    "raising_again",
    "run",
]

EXIT_SUCCESS: Final = 0
EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
GRACE_SECONDS: float = 10.0
"""Seconds for a command to clean up after Ctrl-C or SIGTERM. A second signal ends the process at once."""

_AGAIN_SECONDS: Final = 0.1
"""Seconds after which a signal is raised again whose exception has not arrived."""
_BYTE_SECONDS: Final = 5.0
"""Longest time, in seconds, until a busy machine lets the main thread take a signal."""

# The base of all errors on arguments, in typer's copy of click. Its module depends on the version of typer.
_UsageError: Final = typer.BadParameter.__base__


class Terminated(BaseException):
    """SIGTERM was received. Handlers of errors must not catch it."""


def run(args: Sequence[str]) -> int:
    """Run one command, and return its exit code.

    Errors become one line on stderr that says what to do. With the environment variable ``BARRAGE_DEBUG`` set, they
    come with their traceback.
    """
    is_serve = next((arg for arg in args if not arg.startswith("-")), "") == "serve"
    if is_serve and hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the settings, which it reads again, are still to be read
    try:
        with raising_again():
            from barrage_server.cli.app import app
        outcome = typer.main.get_command(app).main(args=list(args), prog_name="barrage-server", standalone_mode=False)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except Terminated:
        return EXIT_SUCCESS if is_serve else EXIT_TERMINATED
    except BrokenPipeError:
        # The reader has closed stdout (`| head`). Python would report that again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except UsageError as error:
        return _explain_usage(error, args)
    except (BarrageError, OSError) as error:
        _explain(error)
        return EXIT_FAILURE
    except Exception as error:  # the last frame: the user gets a sentence, not a traceback
        if type(error).__name__ == "NoArgsIsHelpError":  # of typer's own copy of click, which has no public name
            print(str(getattr(error, "message", error)), file=sys.stderr)  # noqa: T201
            return EXIT_USAGE
        if _UsageError is not None and isinstance(error, _UsageError):
            return _explain_usage(error, args)
        _explain(error, unexpected=True)
        return EXIT_FAILURE
    return outcome if isinstance(outcome, int) else EXIT_SUCCESS


class _Signals:
    """Whether a signal has been received, and whether it is raised again.

    Attributes:
        received: the first SIGINT or SIGTERM whose exception was raised.
        comes_again: whether it is raised until the exception arrives.
        lock: guards ``comes_again``.
    """

    received: signal.Signals | None = None
    comes_again = False
    lock = threading.Lock()


@contextmanager
def raising_again() -> Iterator[None]:
    """Raise the exception of Ctrl-C or SIGTERM until it ends the ``with`` body.

    Libraries may drop an exception that is raised within them, as pyarrow does while it imports pandas. The body must
    leave nothing half done, as the start of a server: an exception may come while it handles another one.
    """
    try:
        _Signals.comes_again = True
        yield
    finally:
        with _Signals.lock:
            _Signals.comes_again = False
    if _Signals.received is not None:
        raise Terminated if _Signals.received == signal.SIGTERM else KeyboardInterrupt


def _raise_again(reading: int) -> None:
    """Raise the received signal in the main thread, if it may come again.

    Its byte in the wake-up descriptor is discarded.
    """
    with _Signals.lock:
        if _Signals.comes_again and _Signals.received is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, _Signals.received)  # wakes it, too
            if select.select([reading], [], [], _BYTE_SECONDS)[0]:
                os.read(reading, 1)


def end_within(seconds: float) -> None:
    """Set ``GRACE_SECONDS``, after which Ctrl-C or SIGTERM ends this process."""
    global GRACE_SECONDS
    GRACE_SECONDS = seconds


def main() -> NoReturn:
    """Entry point of the ``barrage-server`` program."""
    if isinstance(sys.stdout, TextIOWrapper):  # a table's name may have letters that its encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    with _ends_soon_after_interrupt() as signalled:
        code = run(sys.argv[1:])
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        if code in {EXIT_INTERRUPTED, EXIT_TERMINATED} or signalled.is_set():
            # Threads inside gRPC may still wait for the server; the commands have closed their connections.
            os._exit(code)
    sys.exit(code)


def _explain(error: BaseException, *, unexpected: bool = False, hint: str = "") -> None:
    if os.environ.get("BARRAGE_DEBUG"):
        import traceback

        traceback.print_exception(error)
        return
    said = getattr(error, "format_message", lambda: str(error))()
    text = one_line(" ".join(said.split())) or type(error).__name__
    if unexpected:
        text = f"Unexpected {type(error).__name__}: {text.removesuffix('.')} (set BARRAGE_DEBUG=1 for the details)"
    print(f"barrage-server: {sentence(text)}{hint}", file=sys.stderr)  # noqa: T201


def _explain_usage(error: Exception, args: Sequence[str]) -> int:
    """Explain an error, and name the help that tells more, if any does.

    It is that of the command, or of the program.
    """
    from barrage_server.cli.app import app

    named = next((arg for arg in args if not arg.startswith("-")), "")
    commands = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    program = f"barrage-server {named}" if named in commands else "barrage-server"
    has_help = not isinstance(error, UsageError) or error.has_help
    _explain(error, hint=f" Try '{program} --help'." if has_help else "")
    return EXIT_USAGE


@contextmanager
def _ends_soon_after_interrupt() -> Iterator[threading.Event]:
    """End the process soon after Ctrl-C or SIGTERM, even inside a call of gRPC.

    Python runs signal handlers only between two bytecodes of the main thread, which may be in a blocking call; the
    wake-up descriptor is written at once. SIGTERM ends a command as Ctrl-C does, with another exit code.

    Yields:
        An event that is set when SIGTERM was received.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    codes = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED}

    def watch() -> None:
        code: int | None = None
        end = 0.0
        while True:
            rest = None if code is None else max(0.0, end - time.monotonic())
            ready, _, _ = select.select([reading], [], [], None if rest is None else min(rest, _AGAIN_SECONDS))
            received = os.read(reading, 1) if ready else b""
            if ready and not received:
                return  # the command has ended, and closed its end
            if code is not None and (received or time.monotonic() >= end):
                os._exit(code)
            if code is not None:
                _raise_again(reading)
            elif received:
                code, end = codes.get(signal.Signals(received[0])), time.monotonic() + GRACE_SECONDS

    signalled = threading.Event()

    def terminate(number: int, _frame: object) -> NoReturn:
        signalled.set()
        _Signals.received = signal.Signals(number)
        raise Terminated

    def interrupt(number: int, _frame: object) -> NoReturn:
        _Signals.received = signal.Signals(number)
        raise KeyboardInterrupt

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, terminate)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and is not ignored
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=watch, name="interrupt-watch", daemon=True).start()
    try:
        yield signalled
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)
