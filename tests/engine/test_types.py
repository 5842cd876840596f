"""Which types tables hold, and how arrays are brought to them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine.types import (
    StorageKind,
    cell_dtype,
    check_key_type,
    check_type,
    normalise,
    plain_type,
    storage_kind,
)
from barrage_server.errors import LimitError, SchemaMismatchError, UnsupportedTypeError
from tests.engine.samples import KEYS, SAMPLES, half_full, pick, shown

DICTIONARY = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize("name", SAMPLES)
def test_plain_types_can_be_columns(name: str) -> None:
    data_type = SAMPLES[name].type
    check_type(data_type)
    assert plain_type(data_type) is data_type


@pytest.mark.parametrize("name", KEYS)
def test_flat_types_and_structs_of_them_can_be_keys(name: str) -> None:
    """The check of the type of a key column raises no error."""
    check_key_type(SAMPLES[name].type)


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - set(KEYS) - {"json"}))
def test_lists_and_maps_at_any_depth_cannot_be_keys(name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match="make the parts that identify a row columns of their own"):
        check_key_type(SAMPLES[name].type)


@pytest.mark.parametrize(
    ("encoded", "plain"),
    [
        (DICTIONARY, pa.string()),
        (pa.run_end_encoded(pa.int32(), DICTIONARY), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.list_(DICTIONARY), pa.list_(pa.string())),
        (pa.large_list(pa.string_view()), pa.large_list(pa.string())),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.string(), 2)),
        (pa.list_view(DICTIONARY), pa.list_view(pa.string())),
        (pa.large_list_view(pa.binary_view()), pa.large_list_view(pa.binary())),
        (pa.dense_union([pa.field("a", DICTIONARY)]), pa.dense_union([pa.field("a", pa.string())])),
        (pa.sparse_union([pa.field("a", DICTIONARY)], [7]), pa.sparse_union([pa.field("a", pa.string())], [7])),
        (pa.struct([("a", DICTIONARY), ("b", pa.int8())]), pa.struct([("a", pa.string()), ("b", pa.int8())])),
        (pa.map_(pa.string(), DICTIONARY), pa.map_(pa.string(), pa.string())),
    ],
    ids=str,
)
def test_encoded_types_are_refused_and_the_plain_one_is_named(encoded: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(encoded) == plain
    with pytest.raises(UnsupportedTypeError) as caught:
        check_type(encoded)
    assert str(encoded) in str(caught.value)
    assert f"Declare it as {plain}" in str(caught.value)


def test_types_nested_too_deep_are_refused() -> None:
    data_type = pa.int8()
    for _ in range(65):
        data_type = pa.list_(data_type)
    with pytest.raises(UnsupportedTypeError, match="deeper than 64 levels"):
        check_type(data_type)


@pytest.mark.parametrize(
    ("data_type", "kind", "dtype"),
    [
        (pa.bool_(), StorageKind.BOOL, np.uint8),
        (pa.float16(), StorageKind.FIXED, np.int16),
        (pa.timestamp("ns"), StorageKind.FIXED, np.int64),
        (pa.decimal128(5), StorageKind.FIXED, "V16"),
        (pa.binary(3), StorageKind.FIXED, "V3"),
        (pa.uuid(), StorageKind.FIXED, "V16"),
    ],
    ids=str,
)
def test_cells_have_the_width_of_the_value(data_type: pa.DataType, kind: StorageKind, dtype: object) -> None:
    assert storage_kind(data_type) is kind
    assert cell_dtype(data_type) == np.dtype(dtype)  # type: ignore[call-overload]


def test_values_without_a_width_have_no_cells() -> None:
    assert storage_kind(pa.null()) is StorageKind.NULL
    assert storage_kind(pa.string()) is StorageKind.HEAP
    assert storage_kind(pa.binary(0)) is StorageKind.HEAP


@pytest.mark.parametrize("name", SAMPLES)
def test_an_array_of_the_right_type_and_layout_is_taken_as_it_is(name: str) -> None:
    sample = SAMPLES[name]
    if "view" in name or "union" in name:  # are laid out anew
        assert shown(normalise(sample, sample.type)) == shown(sample)
        return
    assert normalise(sample, sample.type) is sample


@pytest.mark.parametrize("name", SAMPLES)
def test_chunks_are_combined(name: str) -> None:
    sample = SAMPLES[name]
    for chunks in ([], [pick(sample, [0, 1], padding=1)], [pick(sample, [1], padding=2), pick(sample, []), sample]):
        got = normalise(pa.chunked_array(chunks, sample.type), sample.type)
        assert got.type == sample.type
        assert shown(got) == [text for chunk in chunks for text in shown(chunk)]


@pytest.mark.parametrize("name", SAMPLES)
def test_nulls_without_a_type_fit_every_type(name: str) -> None:
    got = normalise(pa.nulls(3), SAMPLES[name].type)
    assert got.type == SAMPLES[name].type
    assert got.to_pylist() == [None] * 3


def texts(data_type: pa.DataType) -> pa.Array:
    return pa.array(["a", None, "b", "b"]).cast(data_type)


@pytest.mark.parametrize(
    "encoded",
    [
        texts(DICTIONARY),
        texts(pa.string_view()),
        texts(DICTIONARY).slice(1, 2),
        pa.chunked_array([pa.array(["x", "y"]).dictionary_encode(), pa.array(["y", None]).dictionary_encode()]),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 3, 4], pa.int32()), pa.array(["a", None, "b"])),
    ],
    ids=["dictionary", "view", "sliced dictionary", "chunks with dictionaries of their own", "run ends"],
)
def test_encodings_are_undone(encoded: pa.Array) -> None:
    got = normalise(encoded, pa.string())
    assert got.type == pa.string()
    assert got.to_pylist() == encoded.to_pylist()


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (pa.array([["a", None], None, []], pa.list_(DICTIONARY)), pa.list_(pa.string())),
        (pa.array([[None], None, []], pa.list_(pa.null())), pa.list_(pa.int32())),
        (pa.array([[1], None], pa.list_(pa.field("element", pa.int8(), nullable=False))), pa.list_(pa.int8())),
        (pa.array([[1, 2], None, [], [3]], pa.list_view(pa.int8())), pa.list_(pa.int8())),
        (pa.array([[1, 2], None, [], [3]], pa.large_list_view(pa.int8())), pa.large_list(pa.int8())),
        (pa.array([[1, 2], [4], [], [3]], pa.list_view(pa.int8())).slice(1, 2), pa.list_(pa.int8())),
        (pa.array([{"a": "x"}, None], pa.struct([("a", DICTIONARY)])), pa.struct([("a", pa.string())])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_encodings_are_undone_at_depth(given: pa.Array, target: pa.DataType) -> None:
    got = normalise(given, target)
    assert got.type == target
    assert got.to_pylist() == given.to_pylist()
    got.validate(full=True)


def test_encodings_behind_an_extension_type_stand_for_their_values() -> None:
    """Whatever their values are stored as."""
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    lists = pa.array([[1], None], pa.list_view(pa.int8()))
    for values in (union, lists, pa.array([1, None])):
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), values)
        entries = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), values)
        for encoded in (runs, entries):
            given = pa.ExtensionArray.from_storage(pa.opaque(encoded.type, "kind", "vendor"), encoded)
            assert normalise(given, values.type).to_pylist() == values.take(pa.array([0, 0, 1])).to_pylist()


def test_extension_types_and_their_storage_stand_for_each_other() -> None:
    storage = pa.array([b"0123456789abcdef", None], pa.binary(16))
    wrapped = normalise(storage, pa.uuid())
    assert wrapped.type == pa.uuid()
    assert normalise(wrapped, pa.binary(16)).equals(storage)
    assert normalise(pa.nulls(1), pa.uuid()).null_count == 1


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (pa.array(["a", None]), pa.large_string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([b"a"], pa.large_binary()), pa.binary()),
        (pa.array([["a"], None], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (pa.array([{"a": [1]}]), pa.struct([("a", pa.large_list(pa.int64()))])),
        (pa.array(["a", "b", "a"], pa.string_view()).dictionary_encode(), pa.string()),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else f"to {value}",
)
def test_the_width_of_offsets_is_the_tables_choice(given: pa.Array, target: pa.DataType) -> None:
    """pandas writes large strings, polars views, and pyarrow plain strings, for the same values."""
    found = normalise(given, target)
    assert found.type == target
    assert found.to_pylist() == given.to_pylist()


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (pa.array([1], pa.int32()), pa.int64()),
        (pa.array([1.0]), pa.int64()),
        (pa.array(["1"]), pa.int64()),
        (pa.array(["a"]), pa.large_binary()),
        (pa.array([1], pa.timestamp("s")), pa.timestamp("us")),
        (pa.array([[1]], pa.list_(pa.int32())), pa.list_(pa.int64())),
        (pa.array([[1]], pa.list_(pa.int32())), pa.list_(pa.int32(), 1)),
        (pa.array([[1]], pa.list_(pa.int32(), 1)), pa.list_(pa.int32(), 2)),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())])),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        (pa.array([1]).dictionary_encode(), pa.string()),
        (pa.array(["x"]), pa.uuid()),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else f"to {value}",
)
def test_other_types_are_refused_and_both_named(given: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        normalise(given, target)
    expected = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    assert f"type {expected}, got {given.type}" in str(caught.value)


def test_chunks_too_large_for_one_array_are_refused() -> None:
    chunk = half_full()
    with pytest.raises(LimitError, match="Publish it in smaller batches"):
        normalise(pa.chunked_array([chunk, chunk]), chunk.type)


def test_a_union_is_refused_as_data_too() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(SchemaMismatchError, match="got sparse_union"):
        normalise(union, pa.int64())


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_encoded_values_of_an_extension_type_are_taken(depth: int) -> None:
    values = pa.array([b"a" * 16, b"b" * 16], pa.uuid())
    array: pa.Array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, None]), values)
    wanted: pa.DataType = pa.uuid()
    for _ in range(depth):
        array = pa.ListArray.from_arrays([0, 1, len(array)], array)
        wanted = pa.list_(wanted)
    plain = normalise(array, wanted)
    assert plain.type == wanted
    assert plain.to_pylist() == array.to_pylist()
