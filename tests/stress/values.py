"""Random Arrow types at any depth, and random arrays of them in every layout that Arrow allows. Pure and seeded."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

MAX_DEPTH = 3
_FIXED = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"),
    pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Paris"),
    pa.duration("ms"), pa.month_day_nano_interval(), pa.decimal32(7, 2), pa.decimal64(15, 3), pa.decimal128(30, 5),
    pa.decimal256(60, 2), pa.binary(1), pa.binary(3), pa.binary(8), pa.binary(12),
]  # fmt: skip
_BYTES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
FLAT = [pa.bool_(), *_FIXED, *_BYTES]
KEYS = [pa.string(), pa.int64(), pa.int16(), pa.date32(), pa.binary(3), pa.timestamp("us", "UTC"), pa.large_binary()]
_INDICES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
_RUN_ENDS = [pa.int16(), pa.int32(), pa.int64()]
_DAY_SECONDS = 86_400
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Foreign(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """An extension type that the servers do not know."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "stress.foreign")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"\x00foreign\xff"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _serialized: bytes) -> Foreign:
        return cls(storage)


with suppress(pa.ArrowKeyError):  # another import of this module
    pa.register_extension_type(Foreign(pa.int8()))


def random_type(chance: random.Random, depth: int = MAX_DEPTH) -> pa.DataType:
    """A type that a table can have."""
    if depth == 0 or chance.random() < 0.45:
        return chance.choice([*FLAT, *_BYTES, pa.float64(), pa.null(), pa.uuid(), pa.bool8()])
    inner = random_type(chance, depth - 1)
    kind = chance.randrange(11)
    if kind == 0:
        return pa.list_(inner)
    if kind == 1:
        return pa.large_list(inner)
    if kind == 2:
        return pa.list_(inner, chance.choice([0, 1, 2, 3]))
    if kind == 3:
        return pa.map_(chance.choice([pa.string(), pa.int32(), pa.date32()]), inner)
    if kind == 4:
        return chance.choice([pa.list_view, pa.large_list_view])(inner)
    if kind == 5:
        # unions cannot be behind an extension type, and of an extension of an extension only one name goes over IPC
        is_storage = not isinstance(inner, pa.BaseExtensionType) and not pat.is_union(inner)
        return _random_extension(chance, inner) if is_storage else inner
    fields = [("a", inner), *((name, random_type(chance, depth - 1)) for name in "bc"[: chance.randrange(3)])]
    if kind < 9:
        return pa.struct(fields)
    codes = chance.sample(range(128), len(fields))
    return pa.union([pa.field(*field) for field in fields], chance.choice(["sparse", "dense"]), codes)


def _random_extension(chance: random.Random, storage: pa.DataType) -> pa.DataType:
    return pa.opaque(storage, "kind", "vendor") if chance.random() < 0.5 else Foreign(storage)


def encoded_type(chance: random.Random, plain: pa.DataType, share: float = 0.4) -> pa.DataType:
    """A type that holds the same values in another way, at any depth; ``share`` of the places are encoded."""
    kind = _encoded_within(chance, plain, share)
    if chance.random() >= share or isinstance(plain, pa.BaseExtensionType):
        return kind
    if (pat.is_string(kind) or pat.is_binary(kind)) and chance.random() < 0.5:
        return pa.string_view() if pat.is_string(kind) else pa.binary_view()
    if chance.random() < 0.5 and not _has_dictionary(kind):
        kind = pa.dictionary(chance.choice(_INDICES), kind)
    else:
        kind = pa.run_end_encoded(chance.choice(_RUN_ENDS), kind)
    return _random_extension(chance, kind) if chance.random() < 0.1 else kind


def _has_dictionary(kind: pa.DataType) -> bool:
    """Of dictionaries in dictionaries pyarrow does not write all changes from batch to batch."""
    while isinstance(kind, pa.BaseExtensionType) or pat.is_run_end_encoded(kind):
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
    if pat.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))


def _encoded_within(chance: random.Random, plain: pa.DataType, share: float) -> pa.DataType:
    def field(given: pa.Field) -> pa.Field:
        return given.with_type(encoded_type(chance, given.type, share))

    if not pat.is_nested(plain):
        return plain  # an extension type, too: with an encoded storage it would be held as its values
    fields = [field(plain.field(number)) for number in range(plain.num_fields)] if not pat.is_map(plain) else []
    if pat.is_struct(plain):
        return pa.struct(fields)
    if pat.is_union(plain):
        return pa.union(fields, plain.mode, plain.type_codes)
    if pat.is_map(plain):
        return pa.map_(plain.key_field, field(plain.item_field))
    if pat.is_fixed_size_list(plain):
        return pa.list_(fields[0], plain.list_size)
    if pat.is_large_list(plain):
        return pa.large_list(fields[0])
    if pat.is_list_view(plain):
        return pa.list_view(fields[0])
    return pa.large_list_view(fields[0]) if pat.is_large_list_view(plain) else pa.list_(fields[0])


def random_array(chance: random.Random, kind: pa.DataType, count: int, nulls: float | None = None) -> pa.Array:
    """``count`` values of a type, often as a slice of a longer array, with garbage beneath the nulls.

    ``nulls`` is the share of nulls; drawn when None.
    """
    before, behind = (chance.choice([0, 0, 1, 3, 9]) for _ in range(2))
    share = chance.choice([0.0, 0.1, 0.5, 1.0]) if nulls is None else nulls
    return _whole(chance, kind, before + count + behind, share).slice(before, count)


def _whole(chance: random.Random, kind: pa.DataType, count: int, nulls: float) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _whole(chance, kind.storage_type, count, nulls))
    if pat.is_null(kind):
        return pa.nulls(count)
    if pat.is_dictionary(kind):
        return _dictionary(chance, kind, count, nulls)
    if pat.is_run_end_encoded(kind):
        return _runs(chance, kind, count, nulls)
    if pat.is_string_view(kind) or pat.is_binary_view(kind):
        texts = [_text(chance, text=pat.is_string_view(kind)) for _ in range(count)]
        return pa.array([None if chance.random() < nulls else text for text in texts], kind)
    if pat.is_union(kind):
        return _union(chance, kind, count)
    valid = _validity(chance, count, nulls)
    validity = _packed(valid)
    if pat.is_struct(kind):
        children = [random_array(chance, kind.field(number).type, count) for number in range(kind.num_fields)]
        return pa.StructArray.from_buffers(kind, count, [validity], children=children)
    if pat.is_fixed_size_list(kind):
        child = random_array(chance, kind.value_type, count * kind.list_size)
        return pa.FixedSizeListArray.from_buffers(kind, count, [validity], children=[child])
    if pat.is_list_view(kind) or pat.is_large_list_view(kind):
        return _list_view(chance, kind, count, valid)
    if pat.is_map(kind) or pat.is_list(kind) or pat.is_large_list(kind):
        return _list(chance, kind, count, validity)
    if kind in _BYTES:
        return _bytes(chance, kind, count, validity)
    if pat.is_boolean(kind):
        bits = [chance.random() < 0.5 for _ in range(count)]
        return pa.Array.from_buffers(kind, count, [validity, _packed_always(bits)])
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(_fixed(chance, kind, count, valid))])


def _validity(chance: random.Random, count: int, nulls: float) -> list[bool]:
    return [chance.random() >= nulls for _ in range(count)]


def _packed(bits: list[bool]) -> pa.Buffer | None:
    """A bitmap; None when all are set."""
    return None if all(bits) else _packed_always(bits)


def _packed_always(bits: list[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(bits, np.bool_), bitorder="little").tobytes())


def _fixed(chance: random.Random, kind: pa.DataType, count: int, valid: list[bool]) -> bytes:
    width = kind.byte_width if pat.is_fixed_size_binary(kind) else kind.bit_width // 8
    draw = _drawing(chance, kind, width)
    few = [draw() for _ in range(max(1, min(count, 5)))]  # so that values come more than once
    return b"".join(
        (chance.choice(few) if chance.random() < 0.5 else draw()) if there else chance.randbytes(width)
        for there in valid
    )


def _drawing(chance: random.Random, kind: pa.DataType, width: int) -> Callable[[], bytes]:
    """Draws the bytes of one value."""

    def number(low: int, high: int, step: int = 1) -> Callable[[], bytes]:
        return lambda: (chance.randint(low, high) * step).to_bytes(width, "little", signed=True)

    if pat.is_decimal(kind):
        limit = 10**kind.precision - 1
        return number(-limit, limit)
    if pat.is_time(kind):
        return number(0, _DAY_SECONDS * _UNITS[kind.unit] - 1)
    if pat.is_date64(kind):
        return number(-30_000, 30_000, _DAY_SECONDS * 1000)
    if pat.is_floating(kind):
        zero, negative_zero = b"\0" * width, b"\0" * (width - 1) + b"\x80"
        infinite, not_a_number = (np.array([value], f"f{width}").tobytes() for value in (np.inf, np.nan))
        payload = b"\x05" + not_a_number[1:-1] + bytes([not_a_number[-1] | 0x80])
        special = [zero, negative_zero, infinite, not_a_number, payload]
        return lambda: chance.choice(special) if chance.random() < 0.4 else chance.randbytes(width)
    return lambda: chance.randbytes(width) if chance.random() < 0.7 else chance.choice([b"\0", b"\xff"]) * width


def _text(chance: random.Random, *, text: bool) -> bytes | str:
    size = chance.choice([0, 1, 3, 8, 12, 13, 40])
    if not text:
        return chance.randbytes(size)
    return "".join(chance.choice("abcxyz é€😀\0\n") for _ in range(size))


def _bytes(chance: random.Random, kind: pa.DataType, count: int, validity: pa.Buffer | None) -> pa.Array:
    is_text = pat.is_string(kind) or pat.is_large_string(kind)
    few = [_text(chance, text=is_text) for _ in range(4)]
    first = b"junk" if chance.random() < 0.3 else b""  # the data need not begin with the first value
    pieces: list[bytes] = []
    for _ in range(count):
        value: Any = chance.choice(few) if chance.random() < 0.5 else _text(chance, text=is_text)
        pieces.append(value.encode() if isinstance(value, str) else value)
    dtype = np.int64 if pat.is_large_string(kind) or pat.is_large_binary(kind) else np.int32
    offsets = (np.cumsum([0, *map(len, pieces)]) + len(first)).astype(dtype)
    data = first + b"".join(pieces)
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])


def _lengths(chance: random.Random, count: int) -> list[int]:
    longest = chance.choice([0, 1, 2, 4])
    return [chance.randint(0, longest) for _ in range(count)]


def _list(chance: random.Random, kind: pa.DataType, count: int, validity: pa.Buffer | None) -> pa.Array:
    first = chance.choice([0, 0, 2])
    offsets = np.cumsum([first, *_lengths(chance, count)])  # null lists have elements as well
    size = int(offsets[-1]) + chance.choice([0, 0, 3])
    if pat.is_map(kind):
        keys = random_array(chance, kind.key_type, size, nulls=0.0)
        items = random_array(chance, kind.item_type, size)
        entries = pa.struct([kind.key_field, kind.item_field])
        child = pa.StructArray.from_buffers(entries, size, [None], children=[keys, items])
    else:
        child = random_array(chance, kind.value_type, size)
    data = offsets.astype(np.int64 if pat.is_large_list(kind) else np.int32).tobytes()
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(data)], children=[child])


def _list_view(chance: random.Random, kind: pa.DataType, count: int, valid: list[bool]) -> pa.Array:
    """Lists in any order, which may overlap."""
    size = 2 * count + chance.randint(0, 3)
    lengths = [min(length, size) for length in _lengths(chance, count)]
    places = [chance.randint(0, size - length) for length in lengths]
    dtype = np.int64 if pat.is_large_list_view(kind) else np.int32
    child = random_array(chance, kind.value_type, size)
    buffers = [_packed(valid), *(pa.py_buffer(np.array(numbers, dtype).tobytes()) for numbers in (places, lengths))]
    return pa.Array.from_buffers(kind, count, buffers, children=[child])


def _union(chance: random.Random, kind: pa.UnionType, count: int) -> pa.Array:
    """Members have values that nothing refers to, and values that several rows refer to."""
    codes = [chance.choice(kind.type_codes) for _ in range(count)]
    buffers = [None, pa.py_buffer(np.array(codes, np.int8).tobytes())]
    members = [kind.field(number).type for number in range(kind.num_fields)]
    if kind.mode == "sparse":
        children = [random_array(chance, member, count) for member in members]
        return pa.Array.from_buffers(kind, count, buffers, children=children)
    nexts = {code: chance.choice([0, 0, 2]) for code in kind.type_codes}
    places = []
    for code in codes:
        places.append(nexts[code])
        nexts[code] += chance.choice([0, 1, 1, 1, 3])
    sizes = [nexts[code] + 1 for code in kind.type_codes]
    children = [random_array(chance, member, size) for member, size in zip(members, sizes, strict=True)]
    buffers.append(pa.py_buffer(np.array(places, np.int32).tobytes()))
    return pa.Array.from_buffers(kind, count, buffers, children=children)


def _dictionary(chance: random.Random, kind: pa.DictionaryType, count: int, nulls: float) -> pa.Array:
    """Indices into values that have nulls and repetitions; values that nothing refers to."""
    size = chance.randint(1, 9)
    values = random_array(chance, kind.value_type, size)
    indices = [None if chance.random() < nulls else chance.randrange(size) for _ in range(count)]
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), values, ordered=kind.ordered)


def _runs(chance: random.Random, kind: pa.RunEndEncodedType, count: int, nulls: float) -> pa.Array:
    ends: list[int] = []
    while not ends or ends[-1] < count:
        ends.append((ends[-1] if ends else 0) + chance.randint(1, 5))
    values = random_array(chance, kind.value_type, len(ends), nulls)
    if count == 0:
        ends, values = [], values.slice(0, 0)
    else:
        ends[-1] = max(count, ends[-1])
    whole = pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), values)
    return whole.slice(0, count)
