"""Row sets and shift data as bytes: what is written is what Deephaven writes; what is read may be anything legal."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import WireFormatError
from barrage_server.rowset import (
    RowSet,
    RowSetShiftData,
    _writer,
    decode_row_set,
    decode_shift_data,
    encode_keys,
    encode_row_set,
    encode_shift_data,
)
from tests.rowset.forms import MAX_KEY, forms, in_some_form, key_sets

Form = Callable[[Iterable[int]], RowSet]


def ranges(*pairs: tuple[int, int]) -> RowSet:
    return RowSet.from_ranges([first for first, _ in pairs], [last for _, last in pairs])


def singles(*steps: int) -> RowSet:
    """Give the set of single keys that lie so far apart."""
    return RowSet.from_keys(np.cumsum(steps))


# -- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "data"),
    [
        (RowSet.EMPTY, "20"),
        (ranges((0, 0)), "0c 00 20"),
        (ranges((3, 3)), "0c 03 20"),
        (ranges((0, 4)), "1c 02 00 fc 20"),
        (ranges((1, 4)), "1c 02 01 fd 20"),
        (ranges((0, 2), (4, 4)), "1c 03 00 fe 02 20"),
        (ranges((0, 4), (8, 22)), "1c 04 00 fc 04 f2 20"),
        (ranges((0, 299_999)), "0c 00 0a 21 6c fb ff 20"),
        (ranges((0x4000002B, 0x40000030)), "0a 2b 00 00 40 0c fb 20"),
        (ranges((0, 149)), "14 02 00 00 6b ff 20"),
        (ranges((150, 152)), "09 96 00 0c fe 20"),
        (ranges((MAX_KEY, MAX_KEY)), "0b ff ff ff ff ff ff ff 7f 20"),
        (ranges((0, MAX_KEY)), "0c 00 0b 01 00 00 00 00 00 00 80 20"),
    ],
)
def test_bytes_of_known_sets(rows: RowSet, data: str) -> None:
    assert encode_row_set(rows) == bytes.fromhex(data)
    assert decode_row_set(bytes.fromhex(data)) == rows


@pytest.mark.parametrize(
    ("rows", "data"),
    [
        # -128 and 127 are bytes, 128 and -129 are not
        (singles(127), "0c 7f 20"),
        (singles(128), "09 80 00 20"),
        (ranges((1, 129)), "1c 02 01 80 20"),
        (ranges((1, 130)), "14 02 01 00 7f ff 20"),
        # 32766 is collected; 32767 stands alone, though 16 bits hold it; 32768 needs 32
        (singles(32766, 2), "09 fe 7f 0c 02 20"),
        (singles(1, 32766), "14 02 01 00 fe 7f 20"),
        (singles(1, 32767), "0c 01 09 ff 7f 20"),
        (singles(1, 32768), "0c 01 0a 00 80 00 00 20"),
        (ranges((0, 32768)), "0c 00 09 00 80 20"),
        (singles(1, 1 << 31), "0c 01 0b 00 00 00 80 00 00 00 00 20"),
        # three bytes before a short join it, four do not, and any number of them at the end are bytes
        (ranges((1, 3), (303, 303)), "14 03 01 00 fe ff 2c 01 20"),
        (singles(1, 2, 2, 300), "14 04 01 00 02 00 02 00 2c 01 20"),
        (singles(1, 2, 2, 2, 300), "1c 04 01 02 02 02 09 2c 01 20"),
        (singles(300, 2, 2, 300), "14 04 2c 01 02 00 02 00 2c 01 20"),
        (singles(300, 2), "09 2c 01 0c 02 20"),
        (singles(300, 300, 2, 2), "14 02 2c 01 2c 01 1c 02 02 02 20"),
        # a large value ends what was collected: bytes before it are at the end, few as they are
        (singles(300, 2, 40_000, 2), "09 2c 01 0c 02 0a 40 9c 00 00 0c 02 20"),
    ],
)
def test_choice_of_commands(rows: RowSet, data: str) -> None:
    assert encode_row_set(rows).hex(" ") == data
    assert decode_row_set(bytes.fromhex(data)) == rows
    assert _writer.write(_writer.values_of(*rows.ranges())).hex(" ") == data


@pytest.mark.parametrize("count", [127, 128, 32_767, 32_768])
@pytest.mark.parametrize(("gap", "command", "width"), [(2, 0x18, 1), (1000, 0x10, 2)])
def test_counts_take_the_narrowest_type(count: int, gap: int, command: int, width: int) -> None:
    rows = RowSet.from_keys(np.arange(1, count + 1, dtype=np.int64) * gap)
    data = encode_row_set(rows)
    head = {
        127: struct.pack("<Bb", command | 4, 127),
        128: struct.pack("<Bh", command | 1, 128),
        32_767: struct.pack("<Bh", command | 1, 32_767),
        32_768: struct.pack("<Bi", command | 2, 32_768),
    }[count]
    assert data == head + gap.to_bytes(width, "little") * count + b"\x20"
    assert decode_row_set(data) == rows


steps = st.one_of(
    st.integers(2, 130),
    st.sampled_from([126, 127, 128, 129, 32_766, 32_767, 32_768, 65_536, (1 << 31) - 1, 1 << 31, 1 << 40]),
    st.integers(2, 1 << 20),
)


@st.composite
def wide_ranges(draw: st.DrawFn) -> RowSet:
    """Give ranges whose gaps and lengths have all the widths there are."""
    pairs = draw(st.lists(st.tuples(steps, st.one_of(st.just(0), steps)), min_size=1, max_size=90))
    edges = np.cumsum(np.array(pairs, np.int64).ravel())
    if draw(st.booleans()):
        edges -= edges[0]
    return RowSet.from_ranges(edges[0::2], edges[1::2])


@given(wide_ranges())
def test_both_writers_write_the_same_and_it_is_read_back(rows: RowSet) -> None:
    values = _writer.values_of(*rows.ranges())
    if rows.size < 100_000:
        assert _writer.values_of_keys(rows.keys()).tolist() == values.tolist()
    assert _writer.write(values) == _writer.write_by_hand(values.tolist()) == encode_row_set(rows)
    assert decode_row_set(encode_row_set(rows)) == rows


@given(st.one_of(wide_ranges(), st.lists(st.integers(2, 140), min_size=1, max_size=200).map(lambda s: singles(*s))))
def test_many_values_are_written_the_same_in_blocks_and_group_by_group(rows: RowSet) -> None:
    values = _writer.values_of(*rows.ranges())
    expected = _writer.write_by_hand(values.tolist())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_writer, "_BLOCK", 16)
        assert _writer.write(values) == expected
        patch.setattr(_writer, "_LONG_GROUP", 1)
        assert _writer.write(values) == expected


@given(st.one_of(key_sets(), st.sets(st.integers(0, 200), max_size=80)))
def test_keys_are_written_like_the_set_of_them(keys: set[int]) -> None:
    listed = np.array(sorted(keys), np.int64)
    assert encode_keys(listed) == encode_row_set(RowSet.from_sorted_keys(listed))


@given(key_sets(), in_some_form)
def test_the_form_of_a_set_does_not_show(keys: set[int], form: Form) -> None:
    assert {encode_row_set(rows) for rows in forms(keys)} == {encode_row_set(form(keys))}
    assert decode_row_set(memoryview(encode_row_set(form(keys)))) == form(keys)


@pytest.mark.parametrize("mean", [3, 300, 20_000, 32_767, 80_000])
def test_large_sets(mean: int) -> None:
    random = np.random.default_rng(mean)
    gaps = random.exponential(mean, 30_000).astype(np.int64) + 2
    lengths = random.integers(0, 3, gaps.size) * random.integers(0, 200, gaps.size)
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    rows = RowSet.from_ranges(starts, starts + lengths)
    assert np.array_equal(_writer.values_of_keys(rows.keys()), _writer.values_of(*rows.ranges()))
    data = encode_row_set(rows)
    assert data == _writer.write_by_hand(_writer.values_of(*rows.ranges()).tolist())
    assert decode_row_set(data) == rows


# -- reading ----------------------------------------------------------------------------------------------------------

VALUE_TYPES = {4: "<b", 1: "<h", 2: "<i", 3: "<q"}


def written_at_random(pairs: list[tuple[int, int]], random: Random) -> bytes:
    """Give some legal stream for ranges: any command, any type wide enough, arrays of no or one value."""
    values: list[int] = []
    place = 0
    for first, last in pairs:
        values += [first - place, first - last] if last > first else [first - place]
        place = last
    parts: list[bytes] = []
    index = 0
    while index < len(values):
        kind = random.choice([0x08, 0x10, 0x18])
        taken = values[index : index + (1 if kind == 0x08 else random.choice([0, 1, 2, 3, 9, 20]))]
        limit = 128 if kind == 0x18 else 1 << 15
        if not all(-limit <= value < limit for value in taken):
            continue
        number = taken[0] if kind == 0x08 else len(taken)
        code = random.choice([1, 2, 3, 4] if -128 <= number < 128 else [1, 2, 3])
        parts.append(struct.pack(VALUE_TYPES[code].replace("<", "<B"), kind | code, number))
        if kind != 0x08:
            parts.append(struct.pack(f"<{len(taken)}{'h' if kind == 0x10 else 'b'}", *taken))
        index += len(taken)
    return b"".join(parts) + b"\x20"


def pairs_of(steps: list[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    """Give ranges made of (gap, length), which may touch; the first one starts at ``first``."""
    pairs: list[tuple[int, int]] = []
    for gap, length in steps:
        start = pairs[-1][1] + gap if pairs else first
        pairs.append((start, start + length))
    return pairs


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 300)), max_size=30),
    st.integers(0, 300),
    st.randoms(use_true_random=False),
)
def test_any_legal_stream_is_read(steps: list[tuple[int, int]], first: int, random: Random) -> None:
    pairs = pairs_of(steps, first)
    assert decode_row_set(written_at_random(pairs, random)) == ranges(*pairs)


@pytest.mark.parametrize("seed", range(8))
def test_long_streams_are_read_the_same(seed: int) -> None:
    """Long streams are cut into commands in another way than short ones."""
    random = Random(seed)
    pairs = pairs_of([(random.randint(1, 300), random.choice([0, 1, 300])) for _ in range(20_000)], seed // 4)
    assert decode_row_set(written_at_random(pairs, random)) == ranges(*pairs)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", "END is missing"),
        ("0c 03", "END is missing"),
        ("1c 02 00 fc", "END is missing"),
        ("0c", "cut short within"),
        ("0a 01 02", "cut short within"),
        ("0b 01 02 03 04 05 06 20", "cut short within"),
        ("14 02 01 00 20", "counts 2 values, but 3 bytes"),
        ("1c 05 00 01 20", "counts 5 values, but 3 bytes"),
        ("1a ff ff ff 7f 00 20", "counts 2147483647 values"),
        ("13 ff ff ff ff ff ff ff 7f 20", "counts 9223372036854775807 values"),
        ("1c ff 20", "counts -1 values"),
        ("0c 03 20 20", "1 bytes follow"),
        ("20 00", "1 bytes follow"),
        ("00", "0x00 is not a command"),
        ("08 03 20", "0x08 is not a command"),
        ("0d 03 20", "0x0d is not a command"),
        ("4c 03 20", "0x4c is not a command"),
        ("24", "0x24 is not a command"),
        ("ff", "0xff is not a command"),
        ("0c fd 20", "did not start"),
        ("1c 03 00 fe fe 20", "did not start"),
        ("1c 02 03 00 20", "given twice"),
        ("1c 03 00 fe 00 20", "given twice"),
        ("0b ff ff ff ff ff ff ff 7f 0c 01 20", "beyond"),
        ("0b ff ff ff ff ff ff ff 7f 0c ff 20", "beyond"),
        ("0c 05 0b 00 00 00 00 00 00 00 80 20", "beyond"),
        ("0c 00 0b 00 00 00 00 00 00 00 80 20", "beyond"),
    ],
)
def test_bad_bytes_are_refused(data: str, text: str) -> None:
    with pytest.raises(WireFormatError, match=text):
        decode_row_set(bytes.fromhex(data))


@pytest.mark.parametrize("filler", [b"\x0c\x02", b"\x1c\x02\x02\xff", b"\x14\x03\x02\x00\x02\x00\x02\x00"])
@pytest.mark.parametrize("tail", ["", "0c", "1c 7f 01 20", "0c 00 20", "0c ff 0c ff 20", "40", "20 20"])
def test_bad_bytes_are_refused_in_long_streams(filler: bytes, tail: str) -> None:
    with pytest.raises(WireFormatError):
        decode_row_set(filler * 20_000 + bytes.fromhex(tail))
    assert decode_row_set(filler * 20_000 + b"\x20").size >= 20_000


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_with_a_wire_error(data: bytes) -> None:
    with suppress(WireFormatError):
        rows = decode_row_set(data, limit=1000)
        assert decode_row_set(encode_row_set(rows)) == rows
    with suppress(WireFormatError):
        shifts = decode_shift_data(data, limit=1000)
        assert decode_shift_data(encode_shift_data(shifts)) == shifts


@given(wide_ranges(), st.data())
def test_damaged_bytes_are_read_or_refused_with_a_wire_error(rows: RowSet, data: st.DataObject) -> None:
    damaged = bytearray(encode_row_set(rows))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = decode_row_set(bytes(damaged))
    except WireFormatError:
        return
    assert decode_row_set(encode_row_set(value)) == value


def test_limit_is_on_the_number_of_ranges() -> None:
    data = encode_row_set(RowSet.from_keys([0, 1, 5, 9]))
    assert decode_row_set(data, limit=3).size == 4
    with pytest.raises(WireFormatError, match="more than 2 ranges"):
        decode_row_set(data, limit=2)
    with pytest.raises(WireFormatError, match="more than 0 ranges"):
        decode_row_set(b"\x0c\x03\x20", limit=0)
    assert decode_row_set(b"\x20", limit=0) == RowSet.EMPTY
    with pytest.raises(WireFormatError, match="more than 1000 ranges"):
        decode_row_set(encode_row_set(RowSet.from_keys(range(0, 200_000, 2))), limit=1000)
    assert decode_row_set(encode_row_set(RowSet.flat(MAX_KEY)), limit=1).size == MAX_KEY


@pytest.mark.parametrize(
    "data", ["1b ff ff ff ff ff ff ff 7f", "12 ff ff ff 7f 00 00", "0c 00 0b 02 00 00 00 00 00 00 80 20"]
)
def test_a_few_bytes_never_allocate_much(data: str) -> None:
    tracemalloc.start()
    try:
        with suppress(WireFormatError):
            decode_row_set(bytes.fromhex(data))
        with pytest.raises(WireFormatError):
            decode_shift_data(bytes.fromhex(data) * 3)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# -- shift data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shifts", "data"),
    [
        ([], "20 20 20"),
        ([(1073741813, 1073741813, -3)], "0a f5 ff ff 3f 20 0a f5 ff ff 3f 20 0a f2 ff ff 3f 20"),
        ([(1073741754, 1073741758, -5)], "0a ba ff ff 3f 20 0a be ff ff 3f 20 0a b5 ff ff 3f 20"),
        # Neighbouring elements are written as the range they form, in each of the three.
        ([(4, 4, 1), (5, 5, 2), (6, 9, 3)], "1c 02 04 fe 20 1c 03 04 ff 04 20 1c 03 05 02 02 20"),
    ],
)
def test_bytes_of_known_shifts(shifts: list[tuple[int, int, int]], data: str) -> None:
    value = RowSetShiftData.from_arrays(*(np.array([shift[part] for shift in shifts], np.int64) for part in range(3)))
    assert encode_shift_data(value).hex(" ") == data
    assert decode_shift_data(bytes.fromhex(data)) == value
    assert list(value) == shifts


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", "END is missing"),
        ("20 20", "END is missing"),
        ("20 20 20 20", "1 bytes follow"),
        ("0c 01 20 0c 01 20 20", "1 first keys, 1 last keys and 0 destinations"),
        ("0c 05 20 0c 04 20 0c 07 20", "breaks its rules: the sources"),
        ("1c 02 00 02 20 1c 02 03 02 20 1c 02 04 04 20", "breaks its rules: the sources"),
        ("1c 02 00 04 20 1c 02 02 04 20 1c 02 05 01 20", "breaks its rules: the destinations"),
        ("0c 00 20 0b ff ff ff ff ff ff ff 7f 20 0c 01 20", "breaks its rules: a shift leaves"),
    ],
)
def test_bad_shift_data_is_refused(data: str, text: str) -> None:
    with pytest.raises(WireFormatError, match=text):
        decode_shift_data(bytes.fromhex(data))


def test_shifts_by_nothing_are_left_out() -> None:
    assert decode_shift_data(
        bytes.fromhex("1c 02 01 02 20 1c 02 01 02 20 1c 02 01 03 20")
    ) == RowSetShiftData.from_arrays([3], [3], [1])


def test_the_number_of_shifts_is_limited() -> None:
    flat = encode_row_set(RowSet.flat(10)) + encode_row_set(RowSet.flat(10)) + encode_row_set(RowSet.from_range(10, 19))
    assert decode_shift_data(flat, limit=10).size == 10
    with pytest.raises(WireFormatError, match="more than 9 shifts"):
        decode_shift_data(flat, limit=9)
    endless = encode_row_set(RowSet.from_range(0, MAX_KEY - 1)) * 3
    with pytest.raises(WireFormatError, match="shifts in one message"):
        decode_shift_data(endless)
