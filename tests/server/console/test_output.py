"""What scripts print is kept by lines, within bounds."""

from __future__ import annotations

from itertools import repeat

from barrage_server.server.console.output import STDERR, STDOUT, Output, Signal


def shown(output: Output) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in output.after(0)]


def test_lines_are_whole_and_their_times_differ() -> None:
    output = Output(repeat(5_000_000).__next__)
    output.begin()
    output.write("a")
    output.write("b\nc", STDOUT)
    output.write("x\n", STDERR)
    assert shown(output) == [(STDOUT, "ab"), (STDERR, "x")]
    output.end()
    assert shown(output) == [(STDOUT, "ab"), (STDERR, "x"), (STDOUT, "c")]
    assert [line.micros for line in output.after(0)] == [5_000, 5_001, 5_002]
    assert [line.text for line in output.after(5_001)] == ["c"]


def test_a_command_prints_so_much_and_the_next_one_again() -> None:
    output = Output()
    for _ in range(2):
        output.begin()
        for _ in range(100):
            output.write("x" * 10_000)
        output.write("more\n")
        output.end()
    texts = [text for _, text in shown(output)]
    assert max(map(len, texts)) <= 4_000
    assert sum(text.count("x") for text in texts) == 2 * (256 << 10)
    assert texts.count("The output beyond 262,144 characters of this command is not shown.") == 2
    assert "more" not in texts


def test_the_last_lines_are_kept() -> None:
    output = Output()
    for _ in range(3):
        output.begin()
        output.write("line\n" * 900)
        output.end()
    assert len(output.after(0)) == 1_000


def test_empty_writes_use_up_the_allowance_too() -> None:
    output = Output()
    output.begin()
    for _ in range((256 << 10) + 1):
        output.write("")
    assert shown(output)[-1][0] == STDERR


def test_listeners_are_called_until_they_are_removed() -> None:
    output, called = Output(), list[int]()
    stop = output.watch(lambda: called.append(1))
    output.write("a\n")
    assert called == [1]
    stop()
    output.write("b\n")
    assert called == [1]


def test_a_receiver_is_woken_once_until_it_looks() -> None:
    output, called = Output(), list[int]()
    signal = Signal(lambda: called.append(1))
    output.watch(signal)
    for _ in range(3):
        output.write("a\n")
    assert called == [1]
    signal.rearm()
    output.end()
    assert called == [1, 1]
