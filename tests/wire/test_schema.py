"""Schemas as they travel."""

from __future__ import annotations

import flatbuffers
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import SchemaMismatchError, UnknownColumnError, WireFormatError
from barrage_server.wire.arrow_message import decode_schema_message, schema_header
from barrage_server.wire.schema import (
    barrage_schema,
    is_list_schema,
    java_type,
    key_columns,
    list_schema,
    plain_schema,
    table_attributes,
)
from tests.wire.arrays import typed_values

SCHEMAS = st.lists(typed_values(), max_size=5).map(
    lambda kinds: pa.schema([pa.field(f"c{number}", kind) for number, (kind, _) in enumerate(kinds)])
)


@pytest.mark.parametrize(
    ("data_type", "name"),
    [
        (pa.int8(), "byte"),
        (pa.int16(), "short"),
        (pa.int32(), "int"),
        (pa.int64(), "long"),
        (pa.uint8(), "short"),
        (pa.uint16(), "char"),
        (pa.uint32(), "long"),
        (pa.uint64(), "java.math.BigInteger"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.bool_(), "java.lang.Boolean"),
        (pa.string(), "java.lang.String"),
        (pa.timestamp("ns", "UTC"), "java.time.Instant"),
        (pa.timestamp("us"), "java.time.Instant"),
        (pa.timestamp("ns", "Asia/Tokyo"), "java.time.ZonedDateTime"),
        (pa.date32(), "java.time.LocalDate"),
        (pa.date64(), "java.time.LocalDate"),
        (pa.time64("ns"), "java.time.LocalTime"),
        (pa.duration("ns"), "java.time.Duration"),
        (pa.decimal128(10, 2), "java.math.BigDecimal"),
        (pa.binary(), "byte[]"),
        (pa.binary(16), "byte[]"),
        (pa.list_(pa.int64()), "long[]"),
        (pa.list_(pa.list_(pa.string())), "java.lang.String[][]"),
        (pa.map_(pa.string(), pa.int8()), "java.util.Map"),
        (pa.struct([("x", pa.int8())]), None),
        (pa.list_(pa.struct([("x", pa.int8())])), None),
    ],
)
def test_java_types(data_type: pa.DataType, name: str | None) -> None:
    """deephaven-clients 5.2 and 10."""
    assert java_type(data_type) == name


class TestBarrageSchema:
    def test_array_columns_name_their_components(self) -> None:
        field = barrage_schema(pa.schema([("a", pa.list_(pa.int64()))])).field("a")
        assert field.metadata[b"deephaven:type"] == b"long[]"
        assert field.metadata[b"deephaven:componentType"] == b"long"

    def test_the_users_metadata_stay(self) -> None:
        schema = pa.schema([pa.field("a", pa.binary(), metadata={"unit": "m"})], metadata={"owner": "me"})
        sent = barrage_schema(schema)
        assert sent.metadata == {b"owner": b"me"}
        assert sent.field("a").metadata[b"unit"] == b"m"

    def test_a_java_type_that_is_given_stays(self) -> None:
        given_metadata = {"deephaven:type": "java.math.BigDecimal"}
        sent = barrage_schema(pa.schema([pa.field("a", pa.binary(), metadata=given_metadata)]))
        assert sent.field("a").metadata[b"deephaven:type"] == b"java.math.BigDecimal"

    def test_columns_are_nullable(self) -> None:
        """A batch may pad columns that were not asked for with nulls."""
        assert barrage_schema(pa.schema([pa.field("a", pa.int8(), nullable=False)])).field("a").nullable

    def test_attributes_come_back(self) -> None:
        attributes: dict[str, object] = {"AppendOnly": True, "Rows": 3, "Big": 1 << 40, "Ratio": 0.5, "CycleNote": "hé"}
        sent = barrage_schema(pa.schema([("a", pa.int8())]), attributes={**attributes, "BlinkTable": False, "No": None})
        assert table_attributes(sent) == attributes
        assert sent.metadata[b"deephaven:attribute_type.Rows"] == b"java.lang.Integer"
        assert sent.metadata[b"deephaven:attribute_type.Big"] == b"java.lang.Long"

    def test_attributes_that_cannot_be_sent_are_named(self) -> None:
        sent = barrage_schema(pa.schema([("a", pa.int8())]), attributes={"Thing": [1]})
        assert sent.metadata == {b"deephaven:unsent.attribute.Thing": b""}
        assert table_attributes(sent) == {}

    def test_attributes_of_an_upstream_server_are_replaced(self) -> None:
        upstream = barrage_schema(pa.schema([("a", pa.int8())]), attributes={"AppendOnly": True})
        assert barrage_schema(upstream).metadata is None

    def test_key_columns(self) -> None:
        schema = pa.schema([("k", pa.int8()), ("v", pa.int8())])
        sent = barrage_schema(schema, key_columns=["k"])
        assert key_columns(sent) == ("k",)
        assert sent.field("v").metadata[b"deephaven:inputtable.isValue"] == b"true"
        assert key_columns(barrage_schema(sent)) == ()
        with pytest.raises(UnknownColumnError, match="'z' is not in the table"):
            barrage_schema(schema, key_columns=["z"])

    def test_attribute_that_does_not_read_as_its_type(self) -> None:
        metadata = {"deephaven:attribute.N": "x", "deephaven:attribute_type.N": "java.lang.Integer"}
        with pytest.raises(WireFormatError, match="does not read as one"):
            table_attributes(pa.schema([("a", pa.int8())], metadata=metadata))


class _Known(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self) -> None:
        super().__init__(pa.int8(), "test.known")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: pa.DataType, _serialized: bytes) -> _Known:
        return cls()


class TestListForm:
    @given(SCHEMAS)
    def test_there_and_back(self, schema: pa.Schema) -> None:
        plain = barrage_schema(schema)
        assert not is_list_schema(plain)
        listed = list_schema(plain)
        assert is_list_schema(listed) == (len(schema) > 0)
        assert plain_schema(listed).equals(plain, check_metadata=True)

    def test_a_list_is_never_null_and_both_carry_metadata(self) -> None:
        field = list_schema(barrage_schema(pa.schema([("a", pa.int8())]))).field("a")
        assert not field.nullable
        assert field.type.value_field.nullable
        assert field.metadata == field.type.value_field.metadata

    def test_the_list_is_not_of_the_extension_type_of_its_items(self) -> None:
        """As a reader sees it that knows a type which the server does not."""
        pa.register_extension_type(_Known())
        try:
            metadata = {"ARROW:extension:name": "test.known", "ARROW:extension:metadata": "", "own": "kept"}
            field = pa.field("a", pa.int8(), metadata=metadata)
            listed = list_schema(pa.schema([field]))
            read = pa.ipc.read_schema(listed.serialize())
        finally:
            pa.unregister_extension_type("test.known")
        assert is_list_schema(read)
        assert plain_schema(read).field(0).type == _Known()
        assert listed.field(0).metadata == {b"own": b"kept"}

    def test_a_plain_schema_is_refused(self) -> None:
        with pytest.raises(SchemaMismatchError, match="'a' is not a list"):
            plain_schema(pa.schema([("a", pa.int8())]))


class TestMessage:
    @given(SCHEMAS)
    def test_there_and_back(self, schema: pa.Schema) -> None:
        plain = barrage_schema(schema, attributes={"AppendOnly": True})
        assert decode_schema_message(schema_header(plain)).equals(plain, check_metadata=True)

    def test_numbers_with_the_highest_byte_first_are_refused(self) -> None:
        """They would be taken for others."""
        builder = flatbuffers.Builder(64)
        builder.StartVector(4, 0, 4)
        fields = builder.EndVector()
        builder.StartObject(4)
        builder.PrependInt16Slot(0, 1, 0)  # endianness
        builder.PrependUOffsetTRelativeSlot(1, fields, 0)
        schema = builder.EndObject()
        builder.StartObject(5)
        builder.PrependInt16Slot(0, 4, 0)
        builder.PrependUint8Slot(1, 1, 0)
        builder.PrependUOffsetTRelativeSlot(2, schema, 0)
        builder.Finish(builder.EndObject())
        with pytest.raises(WireFormatError, match="little-endian"):
            decode_schema_message(bytes(builder.Output()))

    @given(SCHEMAS, st.data())
    def test_damage(self, schema: pa.Schema, data: st.DataObject) -> None:
        """A changed header gives a schema or WireFormatError."""
        header = bytearray(schema_header(schema))
        at = data.draw(st.integers(0, len(header) - 1))
        header[at] = data.draw(st.integers(0, 255))
        try:
            decode_schema_message(bytes(header))
        except WireFormatError:
            return
