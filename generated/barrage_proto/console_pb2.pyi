from barrage_proto import deephaven_pb2 as _deephaven_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
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

class StartConsoleRequest(_message.Message):
    __slots__ = ("result_id", "session_type")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    session_type: str
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., session_type: _Optional[str] = ...) -> None: ...

class StartConsoleResponse(_message.Message):
    __slots__ = ("result_id",)
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ...) -> None: ...

class LogSubscriptionRequest(_message.Message):
    __slots__ = ("last_seen_log_timestamp", "levels")
    LAST_SEEN_LOG_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    last_seen_log_timestamp: int
    levels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, last_seen_log_timestamp: _Optional[int] = ..., levels: _Optional[_Iterable[str]] = ...) -> None: ...

class LogSubscriptionData(_message.Message):
    __slots__ = ("micros", "log_level", "message")
    MICROS_FIELD_NUMBER: _ClassVar[int]
    LOG_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    micros: int
    log_level: str
    message: str
    def __init__(self, micros: _Optional[int] = ..., log_level: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ExecuteCommandRequest(_message.Message):
    __slots__ = ("console_id", "code", "systemic")
    class SystemicType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOT_SET_SYSTEMIC: _ClassVar[ExecuteCommandRequest.SystemicType]
        EXECUTE_NOT_SYSTEMIC: _ClassVar[ExecuteCommandRequest.SystemicType]
        EXECUTE_SYSTEMIC: _ClassVar[ExecuteCommandRequest.SystemicType]
    NOT_SET_SYSTEMIC: ExecuteCommandRequest.SystemicType
    EXECUTE_NOT_SYSTEMIC: ExecuteCommandRequest.SystemicType
    EXECUTE_SYSTEMIC: ExecuteCommandRequest.SystemicType
    CONSOLE_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SYSTEMIC_FIELD_NUMBER: _ClassVar[int]
    console_id: _deephaven_pb2.Ticket
    code: str
    systemic: ExecuteCommandRequest.SystemicType
    def __init__(self, console_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., code: _Optional[str] = ..., systemic: _Optional[_Union[ExecuteCommandRequest.SystemicType, str]] = ...) -> None: ...

class ExecuteCommandResponse(_message.Message):
    __slots__ = ("error_message", "changes", "start_timestamp", "end_timestamp")
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    END_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    error_message: str
    changes: _deephaven_pb2.FieldsChangeUpdate
    start_timestamp: int
    end_timestamp: int
    def __init__(self, error_message: _Optional[str] = ..., changes: _Optional[_Union[_deephaven_pb2.FieldsChangeUpdate, _Mapping]] = ..., start_timestamp: _Optional[int] = ..., end_timestamp: _Optional[int] = ...) -> None: ...

class CancelCommandRequest(_message.Message):
    __slots__ = ("console_id", "command_id")
    CONSOLE_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    console_id: _deephaven_pb2.Ticket
    command_id: _deephaven_pb2.Ticket
    def __init__(self, console_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., command_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ...) -> None: ...

class CancelCommandResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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
