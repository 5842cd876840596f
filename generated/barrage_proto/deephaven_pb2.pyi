from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ticket(_message.Message):
    __slots__ = ("ticket",)
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ticket: bytes
    def __init__(self, ticket: _Optional[bytes] = ...) -> None: ...

class TypedTicket(_message.Message):
    __slots__ = ("ticket", "type")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ticket: Ticket
    type: str
    def __init__(self, ticket: _Optional[_Union[Ticket, _Mapping]] = ..., type: _Optional[str] = ...) -> None: ...

class ConfigValue(_message.Message):
    __slots__ = ("string_value",)
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    string_value: str
    def __init__(self, string_value: _Optional[str] = ...) -> None: ...

class AuthenticationConstantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AuthenticationConstantsResponse(_message.Message):
    __slots__ = ("config_values",)
    class ConfigValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ConfigValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ConfigValue, _Mapping]] = ...) -> None: ...
    CONFIG_VALUES_FIELD_NUMBER: _ClassVar[int]
    config_values: _containers.MessageMap[str, ConfigValue]
    def __init__(self, config_values: _Optional[_Mapping[str, ConfigValue]] = ...) -> None: ...

class ConfigurationConstantsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConfigurationConstantsResponse(_message.Message):
    __slots__ = ("config_values",)
    class ConfigValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ConfigValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ConfigValue, _Mapping]] = ...) -> None: ...
    CONFIG_VALUES_FIELD_NUMBER: _ClassVar[int]
    config_values: _containers.MessageMap[str, ConfigValue]
    def __init__(self, config_values: _Optional[_Mapping[str, ConfigValue]] = ...) -> None: ...

class HandshakeRequest(_message.Message):
    __slots__ = ("auth_protocol", "payload")
    AUTH_PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    auth_protocol: int
    payload: bytes
    def __init__(self, auth_protocol: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class HandshakeResponse(_message.Message):
    __slots__ = ("metadata_header", "session_token", "token_deadline_time_millis", "token_expiration_delay_millis")
    METADATA_HEADER_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DEADLINE_TIME_MILLIS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_EXPIRATION_DELAY_MILLIS_FIELD_NUMBER: _ClassVar[int]
    metadata_header: bytes
    session_token: bytes
    token_deadline_time_millis: int
    token_expiration_delay_millis: int
    def __init__(self, metadata_header: _Optional[bytes] = ..., session_token: _Optional[bytes] = ..., token_deadline_time_millis: _Optional[int] = ..., token_expiration_delay_millis: _Optional[int] = ...) -> None: ...

class WrappedAuthenticationRequest(_message.Message):
    __slots__ = ("type", "payload")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    type: str
    payload: bytes
    def __init__(self, type: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: Ticket
    def __init__(self, id: _Optional[_Union[Ticket, _Mapping]] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ("source_id", "result_id")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    source_id: Ticket
    result_id: Ticket
    def __init__(self, source_id: _Optional[_Union[Ticket, _Mapping]] = ..., result_id: _Optional[_Union[Ticket, _Mapping]] = ...) -> None: ...

class ExportResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("source_id", "result_id")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    source_id: Ticket
    result_id: Ticket
    def __init__(self, source_id: _Optional[_Union[Ticket, _Mapping]] = ..., result_id: _Optional[_Union[Ticket, _Mapping]] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TerminationNotificationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TerminationNotificationResponse(_message.Message):
    __slots__ = ("abnormal_termination", "reason")
    ABNORMAL_TERMINATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    abnormal_termination: bool
    reason: str
    def __init__(self, abnormal_termination: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class ListFieldsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FieldsChangeUpdate(_message.Message):
    __slots__ = ("created", "updated", "removed")
    CREATED_FIELD_NUMBER: _ClassVar[int]
    UPDATED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    created: _containers.RepeatedCompositeFieldContainer[FieldInfo]
    updated: _containers.RepeatedCompositeFieldContainer[FieldInfo]
    removed: _containers.RepeatedCompositeFieldContainer[FieldInfo]
    def __init__(self, created: _Optional[_Iterable[_Union[FieldInfo, _Mapping]]] = ..., updated: _Optional[_Iterable[_Union[FieldInfo, _Mapping]]] = ..., removed: _Optional[_Iterable[_Union[FieldInfo, _Mapping]]] = ...) -> None: ...

class FieldInfo(_message.Message):
    __slots__ = ("typed_ticket", "field_name", "field_description", "application_name", "application_id")
    TYPED_TICKET_FIELD_NUMBER: _ClassVar[int]
    FIELD_NAME_FIELD_NUMBER: _ClassVar[int]
    FIELD_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_NAME_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    typed_ticket: TypedTicket
    field_name: str
    field_description: str
    application_name: str
    application_id: str
    def __init__(self, typed_ticket: _Optional[_Union[TypedTicket, _Mapping]] = ..., field_name: _Optional[str] = ..., field_description: _Optional[str] = ..., application_name: _Optional[str] = ..., application_id: _Optional[str] = ...) -> None: ...

class TableReference(_message.Message):
    __slots__ = ("ticket", "batch_offset")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    BATCH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ticket: Ticket
    batch_offset: int
    def __init__(self, ticket: _Optional[_Union[Ticket, _Mapping]] = ..., batch_offset: _Optional[int] = ...) -> None: ...

class ExportedTableCreationResponse(_message.Message):
    __slots__ = ("result_id", "success", "error_info", "schema_header", "is_static", "size")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_INFO_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_HEADER_FIELD_NUMBER: _ClassVar[int]
    IS_STATIC_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    result_id: TableReference
    success: bool
    error_info: str
    schema_header: bytes
    is_static: bool
    size: int
    def __init__(self, result_id: _Optional[_Union[TableReference, _Mapping]] = ..., success: _Optional[bool] = ..., error_info: _Optional[str] = ..., schema_header: _Optional[bytes] = ..., is_static: _Optional[bool] = ..., size: _Optional[int] = ...) -> None: ...

class FetchTableRequest(_message.Message):
    __slots__ = ("source_id", "result_id")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    source_id: TableReference
    result_id: Ticket
    def __init__(self, source_id: _Optional[_Union[TableReference, _Mapping]] = ..., result_id: _Optional[_Union[Ticket, _Mapping]] = ...) -> None: ...

class ApplyPreviewColumnsRequest(_message.Message):
    __slots__ = ("source_id", "result_id", "convert_arrays", "unpreviewed_types")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERT_ARRAYS_FIELD_NUMBER: _ClassVar[int]
    UNPREVIEWED_TYPES_FIELD_NUMBER: _ClassVar[int]
    source_id: TableReference
    result_id: Ticket
    convert_arrays: bool
    unpreviewed_types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source_id: _Optional[_Union[TableReference, _Mapping]] = ..., result_id: _Optional[_Union[Ticket, _Mapping]] = ..., convert_arrays: _Optional[bool] = ..., unpreviewed_types: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateInputTableRequest(_message.Message):
    __slots__ = ("result_id", "source_table_id", "schema", "kind")
    class InputTableKind(_message.Message):
        __slots__ = ("in_memory_append_only", "in_memory_key_backed", "blink")
        class InMemoryAppendOnly(_message.Message):
            __slots__ = ()
            def __init__(self) -> None: ...
        class InMemoryKeyBacked(_message.Message):
            __slots__ = ("key_columns",)
            KEY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
            key_columns: _containers.RepeatedScalarFieldContainer[str]
            def __init__(self, key_columns: _Optional[_Iterable[str]] = ...) -> None: ...
        class Blink(_message.Message):
            __slots__ = ()
            def __init__(self) -> None: ...
        IN_MEMORY_APPEND_ONLY_FIELD_NUMBER: _ClassVar[int]
        IN_MEMORY_KEY_BACKED_FIELD_NUMBER: _ClassVar[int]
        BLINK_FIELD_NUMBER: _ClassVar[int]
        in_memory_append_only: CreateInputTableRequest.InputTableKind.InMemoryAppendOnly
        in_memory_key_backed: CreateInputTableRequest.InputTableKind.InMemoryKeyBacked
        blink: CreateInputTableRequest.InputTableKind.Blink
        def __init__(self, in_memory_append_only: _Optional[_Union[CreateInputTableRequest.InputTableKind.InMemoryAppendOnly, _Mapping]] = ..., in_memory_key_backed: _Optional[_Union[CreateInputTableRequest.InputTableKind.InMemoryKeyBacked, _Mapping]] = ..., blink: _Optional[_Union[CreateInputTableRequest.InputTableKind.Blink, _Mapping]] = ...) -> None: ...
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    result_id: Ticket
    source_table_id: TableReference
    schema: bytes
    kind: CreateInputTableRequest.InputTableKind
    def __init__(self, result_id: _Optional[_Union[Ticket, _Mapping]] = ..., source_table_id: _Optional[_Union[TableReference, _Mapping]] = ..., schema: _Optional[bytes] = ..., kind: _Optional[_Union[CreateInputTableRequest.InputTableKind, _Mapping]] = ...) -> None: ...

class ExportedTableUpdatesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportedTableUpdateMessage(_message.Message):
    __slots__ = ("export_id", "size", "update_failure_message")
    EXPORT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FAILURE_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    export_id: Ticket
    size: int
    update_failure_message: str
    def __init__(self, export_id: _Optional[_Union[Ticket, _Mapping]] = ..., size: _Optional[int] = ..., update_failure_message: _Optional[str] = ...) -> None: ...

class AddTableRequest(_message.Message):
    __slots__ = ("input_table", "table_to_add")
    INPUT_TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    input_table: Ticket
    table_to_add: Ticket
    def __init__(self, input_table: _Optional[_Union[Ticket, _Mapping]] = ..., table_to_add: _Optional[_Union[Ticket, _Mapping]] = ...) -> None: ...

class AddTableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteTableRequest(_message.Message):
    __slots__ = ("input_table", "table_to_remove")
    INPUT_TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_TO_REMOVE_FIELD_NUMBER: _ClassVar[int]
    input_table: Ticket
    table_to_remove: Ticket
    def __init__(self, input_table: _Optional[_Union[Ticket, _Mapping]] = ..., table_to_remove: _Optional[_Union[Ticket, _Mapping]] = ...) -> None: ...

class DeleteTableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
