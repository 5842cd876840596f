"""The process of servers and clients: its end, forks, threads, memory and stderr.

An ending interpreter waits for threads, and frees Flight servers and clients, which wait for their streams. Open
objects are closed before that, by :func:`end_with_process`, in the order of :class:`Ending`, in bounded time.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  (registers its end before ours: see below)
import ctypes
import gc
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, Final, Protocol

import pyarrow as pa

from barrage_server.errors import LimitError

__all__ = [
    "Endable",
    "Ending",
    "Waiting",
    "choose_allocators",
    "collect_new_objects_only",
    "end_with_process",
    "is_ending",
    "keep_freed_memory",
    "leave_to_parent",
    "most_connections",
    "raise_descriptor_limit",
    "return_memory",
    "start_thread",
    "wake_at_end",
]

logger = logging.getLogger("barrage_server")

_POOL_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"
_MALLOC_VARIABLES: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_ARENA_VARIABLE: Final = "MALLOC_ARENA_MAX"
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # parameters of glibc's mallopt
_MAPPED_BYTES: Final = 4 << 20
"""Bytes from which an array is mapped, and returned when it is freed. Mapped arrays can have large pages."""
_KEPT_BYTES: Final = 128 << 20
"""Freed bytes that glibc keeps at the end of each arena."""
_ARENAS: Final = 2
"""Arenas that all threads share. glibc's own bound is eight for each processor."""
_FREE_BYTES: Final = 64 << 20
"""Free bytes in all arenas beyond which :func:`return_memory` returns memory."""
_MOST_DESCRIPTORS: Final = 1 << 16
"""Upper bound of the raised soft limit of descriptors: listing a process's descriptors takes time for each."""
_SPARE_DESCRIPTORS: Final = 64
"""Least number of descriptors that connections leave free."""
_SECONDS: Final = 5.0
"""Seconds for all open objects to end, except the last step of each."""
_REST_OF_DAEMONS: Final = 0.02
"""Seconds for daemon threads to leave Arrow and wait.

A thread that leaves Arrow after the end of the interpreter is killed, which can abort the process.
"""


class Ending(IntEnum):
    """The order in which objects end: those that need a connection before it."""

    PUBLICATION = 0
    RELAY = 1
    SUBSCRIPTION = 2
    CHANNEL = 3
    SERVER = 4


class Endable(Protocol):
    """An object that must be closed before the interpreter ends."""

    def end_with_process(self, timeout: float) -> None:
        """Close, in about ``timeout`` seconds at most, without starting a thread."""


class Waiting(Protocol):
    """An object that threads wait for, possibly without limit."""

    def wake(self) -> None:
        """Make waiting threads check :func:`is_ending`. Must not block."""


class _Registry:
    """The objects to close at the end of this process.

    A forked child begins with an empty registry, because it lacks the parent's threads.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[Ending, weakref.WeakSet[Endable]] = {order: weakref.WeakSet() for order in Ending}
        self.waiting: weakref.WeakSet[Waiting] = weakref.WeakSet()
        self.threaded: weakref.WeakSet[Any] = weakref.WeakSet()
        self.is_ending = False


_registry = _Registry()


def end_with_process(thing: Endable, order: Ending) -> None:
    """Close ``thing`` when the interpreter ends. Closing twice must be safe."""
    with _registry.lock:
        _registry.open[order].add(thing)


def wake_at_end(thing: Waiting) -> None:
    """Call ``thing.wake()`` when the main thread ends, before others are awaited."""
    with _registry.lock:
        _registry.waiting.add(thing)


def leave_to_parent(thing: object) -> None:
    """Never free ``thing``, which has threads, in a forked child."""
    with _registry.lock:
        _registry.threaded.add(thing)


def is_ending() -> bool:
    """Whether the main thread has ended, so that no thread may wait without limit."""
    return _registry.is_ending


def start_thread(thread: threading.Thread) -> None:
    """Start ``thread``, or raise an error of this package.

    Raises:
        LimitError: the process cannot start a thread.
    """
    try:
        thread.start()
    except RuntimeError as error:
        raise LimitError(
            f"The operating system or the end of the interpreter allows no further thread ({error}); "
            f"'{thread.name}' was not started."
        ) from error


class _Allocators:
    """``chosen``: whether :func:`choose_allocators` has set up the C library."""

    chosen = False


_allocators = _Allocators()


def choose_allocators() -> None:
    """Let Arrow allocate with jemalloc, and glibc keep freed memory for reuse.

    Variables of the environment take precedence: ``ARROW_DEFAULT_MEMORY_POOL``, and glibc's for ``malloc``. To be
    called before threads are started: those that have an arena keep it.

    - mimalloc, Arrow's default, keeps memory that another thread freed until the allocating thread allocates again. A
      thread that waits for a client does not allocate, and gRPC frees sent messages on its own threads.
    - glibc returns freed memory beyond a bound that depends on earlier arrays. In some processes each cycle of a large
      table then writes to fresh memory, which takes up to a fifth of its time.
    - glibc gives threads arenas of their own, and each keeps the memory that its threads have freed. A thread that has
      made a message waits for its client, and the memory that its arena keeps serves no other thread.
    """
    if not os.environ.get(_POOL_VARIABLE) and "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    mallopt = keep_freed_memory(_KEPT_BYTES)
    if mallopt is None:
        return
    if not os.environ.get(_ARENA_VARIABLE):
        mallopt(_ARENA_MAX, _ARENAS)
    _allocators.chosen = True


def keep_freed_memory(nbytes: int) -> Callable[[int, int], int] | None:
    """Let glibc keep up to ``nbytes`` of freed memory at the end of each arena.

    It returns arrays of 4 MiB and more at once. Without this, it returns what is freed beyond a bound that depends on
    earlier arrays.

    Returns:
        Its ``mallopt``; ``None`` with another C library, and where variables of the environment say what to keep.
    """
    if any(os.environ.get(name) for name in _MALLOC_VARIABLES):
        return None
    try:
        mallopt: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return None
    mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
    mallopt(_TRIM_THRESHOLD, nbytes)
    return mallopt


def collect_new_objects_only() -> None:
    """Let garbage collections skip all present objects.

    For a process that only serves, to be called before it does. A full collection otherwise holds up all threads for
    some 50 ms.
    """
    gc.freeze()


class _Mallinfo(ctypes.Structure):
    """The result of glibc's ``mallinfo2``.

    ``free`` is its ``fordblks``: bytes of free blocks in all arenas.
    """

    _fields_: ClassVar = [("before", ctypes.c_size_t * 8), ("free", ctypes.c_size_t), ("after", ctypes.c_size_t)]


def return_memory() -> bool:
    """Return freed memory to the operating system, if the C library keeps much of it.

    glibc has an arena for each of several threads, and keeps freed memory between used blocks of an arena. That is up
    to the most that threads have used at once, for example while they wait for stalled clients. To be called about
    every ten seconds: allocating returned memory again costs about 0.2 ms per MiB.

    Returns:
        Whether memory was returned; ``False`` with another C library, and where :func:`choose_allocators` has left the
        allocator as it was.
    """
    if not _allocators.chosen:
        return False
    try:
        library = ctypes.CDLL(None)
        trim, info = library.malloc_trim, library.mallinfo2
    except (OSError, AttributeError, TypeError):
        return False
    info.restype = _Mallinfo
    if info().free <= _FREE_BYTES:
        return False
    return bool(trim(ctypes.c_size_t(0)))


def raise_descriptor_limit() -> int:
    """Raise the limit of open descriptors as far as the system allows; return it."""
    import resource  # there is none on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has another limit below this one
            logger.debug("the limit of descriptors stays at %d", soft)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def most_connections(wanted: int) -> int:
    """The connections for one port, at most ``wanted``; some descriptors stay free."""
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - max(_SPARE_DESCRIPTORS, soft // 8)))


def _main_thread_ended() -> None:
    _registry.is_ending = True
    with _registry.lock:
        waiting = list(_registry.waiting)
    for thing in waiting:
        thing.wake()


def _close_all() -> None:
    deadline = time.monotonic() + _SECONDS
    for order in Ending:
        with _registry.lock:
            things = list(_registry.open[order])
        for thing in things:
            try:
                thing.end_with_process(max(0.1, deadline - time.monotonic()))
            except KeyboardInterrupt:
                deadline = 0.0  # Ctrl-C again: do not wait for the rest
            except Exception:  # the others must end as well
                logger.debug("%r did not end well with the process", thing, exc_info=True)
    if threading.active_count() > 1:
        time.sleep(_REST_OF_DAEMONS)


def _leave_to_parent() -> None:
    """Clear the registry of a forked child, and never free objects with threads.

    Freeing them would wait for threads of the parent.
    """
    global _registry
    threaded = set(_registry.threaded)
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        alive = finalizer.peek()
        if alive is not None and alive[0] in threaded:
            finalizer.detach()
    for thing in threaded:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    _registry = _Registry()


# Runs before the interpreter waits for non-daemon threads. Registered after the function of ``concurrent.futures``,
# because the last registered function runs first, and a thread of a pool may wait here. There is no public interface;
# without it such threads keep waiting, and everything else still ends.
_register = getattr(threading, "_register_atexit", None)
if _register is not None:
    try:
        _register(_main_thread_ended)
    except RuntimeError:  # imported while the interpreter ends
        _registry.is_ending = True
# ``weakref`` runs the finalizers of Flight's servers, which wait for their streams, in an exit function that the first
# finalizer registers. ``_close_all`` is registered after it, so that it runs before.
weakref.finalize(_main_thread_ended, lambda: None)
atexit.register(_close_all)
if "grpc" not in sys.modules:
    # gRPC writes to stderr, past every logger; errors have its messages, too. It reads this variable when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.register_at_fork(after_in_child=_leave_to_parent)
