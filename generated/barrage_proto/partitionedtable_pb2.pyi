from barrage_proto import deephaven_pb2 as _deephaven_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PartitionByRequest(_message.Message):
    __slots__ = ("table_id", "result_id", "key_column_names", "drop_keys")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMN_NAMES_FIELD_NUMBER: _ClassVar[int]
    DROP_KEYS_FIELD_NUMBER: _ClassVar[int]
    table_id: _deephaven_pb2.Ticket
    result_id: _deephaven_pb2.Ticket
    key_column_names: _containers.RepeatedScalarFieldContainer[str]
    drop_keys: bool
    def __init__(self, table_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., key_column_names: _Optional[_Iterable[str]] = ..., drop_keys: _Optional[bool] = ...) -> None: ...

class PartitionByResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MergeRequest(_message.Message):
    __slots__ = ("partitioned_table", "result_id")
    PARTITIONED_TABLE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    partitioned_table: _deephaven_pb2.Ticket
    result_id: _deephaven_pb2.Ticket
    def __init__(self, partitioned_table: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ...) -> None: ...

class GetTableRequest(_message.Message):
    __slots__ = ("partitioned_table", "key_table_ticket", "result_id")
    PARTITIONED_TABLE_FIELD_NUMBER: _ClassVar[int]
    KEY_TABLE_TICKET_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    partitioned_table: _deephaven_pb2.Ticket
    key_table_ticket: _deephaven_pb2.Ticket
    result_id: _deephaven_pb2.Ticket
    def __init__(self, partitioned_table: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., key_table_ticket: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ...) -> None: ...
