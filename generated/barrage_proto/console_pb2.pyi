from barrage_proto import deephaven_pb2 as _deephaven_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetConsoleTypesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConsoleTypesResponse(_message.Message):
    __slots__ = ("console_types",)
    CONSOLE_TYPES_FIELD_NUMBER: _ClassVar[int]
    console_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, console_types: _Optional[_Iterable[str]] = ...) -> None: ...

class BindTableToVariableRequest(_message.Message):
    __slots__ = ("console_id", "variable_name", "table_id")
    CONSOLE_ID_FIELD_NUMBER: _ClassVar[int]
    VARIABLE_NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    console_id: _deephaven_pb2.Ticket
    variable_name: str
    table_id: _deephaven_pb2.Ticket
    def __init__(self, console_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., variable_name: _Optional[str] = ..., table_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ...) -> None: ...

class BindTableToVariableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
