from barrage_proto import deephaven_pb2 as _deephaven_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NullValue(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NULL_VALUE: _ClassVar[NullValue]

class CaseSensitivity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MATCH_CASE: _ClassVar[CaseSensitivity]
    IGNORE_CASE: _ClassVar[CaseSensitivity]

class MatchType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REGULAR: _ClassVar[MatchType]
    INVERTED: _ClassVar[MatchType]

class BadDataBehavior(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BAD_DATA_BEHAVIOR_NOT_SPECIFIED: _ClassVar[BadDataBehavior]
    THROW: _ClassVar[BadDataBehavior]
    RESET: _ClassVar[BadDataBehavior]
    SKIP: _ClassVar[BadDataBehavior]
    POISON: _ClassVar[BadDataBehavior]

class UpdateByNullBehavior(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NULL_BEHAVIOR_NOT_SPECIFIED: _ClassVar[UpdateByNullBehavior]
    NULL_DOMINATES: _ClassVar[UpdateByNullBehavior]
    VALUE_DOMINATES: _ClassVar[UpdateByNullBehavior]
    ZERO_DOMINATES: _ClassVar[UpdateByNullBehavior]
NULL_VALUE: NullValue
MATCH_CASE: CaseSensitivity
IGNORE_CASE: CaseSensitivity
REGULAR: MatchType
INVERTED: MatchType
BAD_DATA_BEHAVIOR_NOT_SPECIFIED: BadDataBehavior
THROW: BadDataBehavior
RESET: BadDataBehavior
SKIP: BadDataBehavior
POISON: BadDataBehavior
NULL_BEHAVIOR_NOT_SPECIFIED: UpdateByNullBehavior
NULL_DOMINATES: UpdateByNullBehavior
VALUE_DOMINATES: UpdateByNullBehavior
ZERO_DOMINATES: UpdateByNullBehavior

class EmptyTableRequest(_message.Message):
    __slots__ = ("result_id", "size")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    size: int
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., size: _Optional[int] = ...) -> None: ...

class TimeTableRequest(_message.Message):
    __slots__ = ("result_id", "start_time_nanos", "start_time_string", "period_nanos", "period_string", "blink_table")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_STRING_FIELD_NUMBER: _ClassVar[int]
    PERIOD_NANOS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_STRING_FIELD_NUMBER: _ClassVar[int]
    BLINK_TABLE_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    start_time_nanos: int
    start_time_string: str
    period_nanos: int
    period_string: str
    blink_table: bool
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., start_time_nanos: _Optional[int] = ..., start_time_string: _Optional[str] = ..., period_nanos: _Optional[int] = ..., period_string: _Optional[str] = ..., blink_table: _Optional[bool] = ...) -> None: ...

class SelectOrUpdateRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "column_specs")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMN_SPECS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    column_specs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., column_specs: _Optional[_Iterable[str]] = ...) -> None: ...

class DropColumnsRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "column_names")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMN_NAMES_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    column_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., column_names: _Optional[_Iterable[str]] = ...) -> None: ...

class SelectDistinctRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "column_names")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMN_NAMES_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    column_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., column_names: _Optional[_Iterable[str]] = ...) -> None: ...

class UnstructuredFilterTableRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "filters")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    filters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., filters: _Optional[_Iterable[str]] = ...) -> None: ...

class FilterTableRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "filters")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    filters: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., filters: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class SortDescriptor(_message.Message):
    __slots__ = ("column_name", "is_absolute", "direction")
    class SortDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SortDescriptor.SortDirection]
        DESCENDING: _ClassVar[SortDescriptor.SortDirection]
        ASCENDING: _ClassVar[SortDescriptor.SortDirection]
        REVERSE: _ClassVar[SortDescriptor.SortDirection]
    UNKNOWN: SortDescriptor.SortDirection
    DESCENDING: SortDescriptor.SortDirection
    ASCENDING: SortDescriptor.SortDirection
    REVERSE: SortDescriptor.SortDirection
    COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_ABSOLUTE_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    column_name: str
    is_absolute: bool
    direction: SortDescriptor.SortDirection
    def __init__(self, column_name: _Optional[str] = ..., is_absolute: _Optional[bool] = ..., direction: _Optional[_Union[SortDescriptor.SortDirection, str]] = ...) -> None: ...

class SortTableRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "sorts")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    SORTS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    sorts: _containers.RepeatedCompositeFieldContainer[SortDescriptor]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., sorts: _Optional[_Iterable[_Union[SortDescriptor, _Mapping]]] = ...) -> None: ...

class HeadOrTailRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "num_rows")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_ROWS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    num_rows: int
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., num_rows: _Optional[int] = ...) -> None: ...

class HeadOrTailByRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "num_rows", "group_by_column_specs")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NUM_ROWS_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_COLUMN_SPECS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    num_rows: int
    group_by_column_specs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., num_rows: _Optional[int] = ..., group_by_column_specs: _Optional[_Iterable[str]] = ...) -> None: ...

class SliceRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "first_position_inclusive", "last_position_exclusive")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_POSITION_INCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    LAST_POSITION_EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    first_position_inclusive: int
    last_position_exclusive: int
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., first_position_inclusive: _Optional[int] = ..., last_position_exclusive: _Optional[int] = ...) -> None: ...

class FlattenRequest(_message.Message):
    __slots__ = ("result_id", "source_id")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ...) -> None: ...

class MetaTableRequest(_message.Message):
    __slots__ = ("result_id", "source_id")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ...) -> None: ...

class SnapshotTableRequest(_message.Message):
    __slots__ = ("result_id", "source_id")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ...) -> None: ...

class SnapshotWhenTableRequest(_message.Message):
    __slots__ = ("result_id", "base_id", "trigger_id", "initial", "incremental", "history", "stamp_columns")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_ID_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    STAMP_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    base_id: _deephaven_pb2.TableReference
    trigger_id: _deephaven_pb2.TableReference
    initial: bool
    incremental: bool
    history: bool
    stamp_columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., base_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., trigger_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., initial: _Optional[bool] = ..., incremental: _Optional[bool] = ..., history: _Optional[bool] = ..., stamp_columns: _Optional[_Iterable[str]] = ...) -> None: ...

class UngroupRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "null_fill", "columns_to_ungroup")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NULL_FILL_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_UNGROUP_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    null_fill: bool
    columns_to_ungroup: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., null_fill: _Optional[bool] = ..., columns_to_ungroup: _Optional[_Iterable[str]] = ...) -> None: ...

class MergeTablesRequest(_message.Message):
    __slots__ = ("result_id", "source_ids", "key_column")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_IDS_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMN_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_ids: _containers.RepeatedCompositeFieldContainer[_deephaven_pb2.TableReference]
    key_column: str
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_ids: _Optional[_Iterable[_Union[_deephaven_pb2.TableReference, _Mapping]]] = ..., key_column: _Optional[str] = ...) -> None: ...

class CrossJoinTablesRequest(_message.Message):
    __slots__ = ("result_id", "left_id", "right_id", "columns_to_match", "columns_to_add", "reserve_bits")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    LEFT_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_MATCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    RESERVE_BITS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    left_id: _deephaven_pb2.TableReference
    right_id: _deephaven_pb2.TableReference
    columns_to_match: _containers.RepeatedScalarFieldContainer[str]
    columns_to_add: _containers.RepeatedScalarFieldContainer[str]
    reserve_bits: int
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., left_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., right_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., columns_to_match: _Optional[_Iterable[str]] = ..., columns_to_add: _Optional[_Iterable[str]] = ..., reserve_bits: _Optional[int] = ...) -> None: ...

class AjRajTablesRequest(_message.Message):
    __slots__ = ("result_id", "left_id", "right_id", "exact_match_columns", "as_of_column", "columns_to_add")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    LEFT_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_ID_FIELD_NUMBER: _ClassVar[int]
    EXACT_MATCH_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_COLUMN_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    left_id: _deephaven_pb2.TableReference
    right_id: _deephaven_pb2.TableReference
    exact_match_columns: _containers.RepeatedScalarFieldContainer[str]
    as_of_column: str
    columns_to_add: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., left_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., right_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., exact_match_columns: _Optional[_Iterable[str]] = ..., as_of_column: _Optional[str] = ..., columns_to_add: _Optional[_Iterable[str]] = ...) -> None: ...

class RangeJoinTablesRequest(_message.Message):
    __slots__ = ("result_id", "left_id", "right_id", "exact_match_columns", "left_start_column", "range_start_rule", "right_range_column", "range_end_rule", "left_end_column", "aggregations", "range_match")
    class RangeStartRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        START_UNSPECIFIED: _ClassVar[RangeJoinTablesRequest.RangeStartRule]
        LESS_THAN: _ClassVar[RangeJoinTablesRequest.RangeStartRule]
        LESS_THAN_OR_EQUAL: _ClassVar[RangeJoinTablesRequest.RangeStartRule]
        LESS_THAN_OR_EQUAL_ALLOW_PRECEDING: _ClassVar[RangeJoinTablesRequest.RangeStartRule]
    START_UNSPECIFIED: RangeJoinTablesRequest.RangeStartRule
    LESS_THAN: RangeJoinTablesRequest.RangeStartRule
    LESS_THAN_OR_EQUAL: RangeJoinTablesRequest.RangeStartRule
    LESS_THAN_OR_EQUAL_ALLOW_PRECEDING: RangeJoinTablesRequest.RangeStartRule
    class RangeEndRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        END_UNSPECIFIED: _ClassVar[RangeJoinTablesRequest.RangeEndRule]
        GREATER_THAN: _ClassVar[RangeJoinTablesRequest.RangeEndRule]
        GREATER_THAN_OR_EQUAL: _ClassVar[RangeJoinTablesRequest.RangeEndRule]
        GREATER_THAN_OR_EQUAL_ALLOW_FOLLOWING: _ClassVar[RangeJoinTablesRequest.RangeEndRule]
    END_UNSPECIFIED: RangeJoinTablesRequest.RangeEndRule
    GREATER_THAN: RangeJoinTablesRequest.RangeEndRule
    GREATER_THAN_OR_EQUAL: RangeJoinTablesRequest.RangeEndRule
    GREATER_THAN_OR_EQUAL_ALLOW_FOLLOWING: RangeJoinTablesRequest.RangeEndRule
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    LEFT_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_ID_FIELD_NUMBER: _ClassVar[int]
    EXACT_MATCH_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LEFT_START_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RANGE_START_RULE_FIELD_NUMBER: _ClassVar[int]
    RIGHT_RANGE_COLUMN_FIELD_NUMBER: _ClassVar[int]
    RANGE_END_RULE_FIELD_NUMBER: _ClassVar[int]
    LEFT_END_COLUMN_FIELD_NUMBER: _ClassVar[int]
    AGGREGATIONS_FIELD_NUMBER: _ClassVar[int]
    RANGE_MATCH_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    left_id: _deephaven_pb2.TableReference
    right_id: _deephaven_pb2.TableReference
    exact_match_columns: _containers.RepeatedScalarFieldContainer[str]
    left_start_column: str
    range_start_rule: RangeJoinTablesRequest.RangeStartRule
    right_range_column: str
    range_end_rule: RangeJoinTablesRequest.RangeEndRule
    left_end_column: str
    aggregations: _containers.RepeatedCompositeFieldContainer[Aggregation]
    range_match: str
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., left_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., right_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., exact_match_columns: _Optional[_Iterable[str]] = ..., left_start_column: _Optional[str] = ..., range_start_rule: _Optional[_Union[RangeJoinTablesRequest.RangeStartRule, str]] = ..., right_range_column: _Optional[str] = ..., range_end_rule: _Optional[_Union[RangeJoinTablesRequest.RangeEndRule, str]] = ..., left_end_column: _Optional[str] = ..., aggregations: _Optional[_Iterable[_Union[Aggregation, _Mapping]]] = ..., range_match: _Optional[str] = ...) -> None: ...

class NaturalJoinTablesRequest(_message.Message):
    __slots__ = ("result_id", "left_id", "right_id", "columns_to_match", "columns_to_add", "join_type")
    class JoinType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        JOIN_TYPE_NOT_SPECIFIED: _ClassVar[NaturalJoinTablesRequest.JoinType]
        ERROR_ON_DUPLICATE: _ClassVar[NaturalJoinTablesRequest.JoinType]
        FIRST_MATCH: _ClassVar[NaturalJoinTablesRequest.JoinType]
        LAST_MATCH: _ClassVar[NaturalJoinTablesRequest.JoinType]
        EXACTLY_ONE_MATCH: _ClassVar[NaturalJoinTablesRequest.JoinType]
    JOIN_TYPE_NOT_SPECIFIED: NaturalJoinTablesRequest.JoinType
    ERROR_ON_DUPLICATE: NaturalJoinTablesRequest.JoinType
    FIRST_MATCH: NaturalJoinTablesRequest.JoinType
    LAST_MATCH: NaturalJoinTablesRequest.JoinType
    EXACTLY_ONE_MATCH: NaturalJoinTablesRequest.JoinType
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    LEFT_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_MATCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    JOIN_TYPE_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    left_id: _deephaven_pb2.TableReference
    right_id: _deephaven_pb2.TableReference
    columns_to_match: _containers.RepeatedScalarFieldContainer[str]
    columns_to_add: _containers.RepeatedScalarFieldContainer[str]
    join_type: NaturalJoinTablesRequest.JoinType
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., left_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., right_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., columns_to_match: _Optional[_Iterable[str]] = ..., columns_to_add: _Optional[_Iterable[str]] = ..., join_type: _Optional[_Union[NaturalJoinTablesRequest.JoinType, str]] = ...) -> None: ...

class ExactJoinTablesRequest(_message.Message):
    __slots__ = ("result_id", "left_id", "right_id", "columns_to_match", "columns_to_add")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    LEFT_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_MATCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    left_id: _deephaven_pb2.TableReference
    right_id: _deephaven_pb2.TableReference
    columns_to_match: _containers.RepeatedScalarFieldContainer[str]
    columns_to_add: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., left_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., right_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., columns_to_match: _Optional[_Iterable[str]] = ..., columns_to_add: _Optional[_Iterable[str]] = ...) -> None: ...

class MultiJoinInput(_message.Message):
    __slots__ = ("source_id", "columns_to_match", "columns_to_add")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_MATCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_ADD_FIELD_NUMBER: _ClassVar[int]
    source_id: _deephaven_pb2.TableReference
    columns_to_match: _containers.RepeatedScalarFieldContainer[str]
    columns_to_add: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., columns_to_match: _Optional[_Iterable[str]] = ..., columns_to_add: _Optional[_Iterable[str]] = ...) -> None: ...

class MultiJoinTablesRequest(_message.Message):
    __slots__ = ("result_id", "multi_join_inputs")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    MULTI_JOIN_INPUTS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    multi_join_inputs: _containers.RepeatedCompositeFieldContainer[MultiJoinInput]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., multi_join_inputs: _Optional[_Iterable[_Union[MultiJoinInput, _Mapping]]] = ...) -> None: ...

class WhereInRequest(_message.Message):
    __slots__ = ("result_id", "left_id", "right_id", "inverted", "columns_to_match")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    LEFT_ID_FIELD_NUMBER: _ClassVar[int]
    RIGHT_ID_FIELD_NUMBER: _ClassVar[int]
    INVERTED_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_TO_MATCH_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    left_id: _deephaven_pb2.TableReference
    right_id: _deephaven_pb2.TableReference
    inverted: bool
    columns_to_match: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., left_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., right_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., inverted: _Optional[bool] = ..., columns_to_match: _Optional[_Iterable[str]] = ...) -> None: ...

class AggSpec(_message.Message):
    __slots__ = ("abs_sum", "approximate_percentile", "avg", "count_distinct", "distinct", "first", "formula", "group", "last", "max", "median", "min", "percentile", "sorted_first", "sorted_last", "std", "sum", "unique", "weighted_avg", "weighted_sum", "var")
    class AggSpecApproximatePercentile(_message.Message):
        __slots__ = ("percentile", "compression")
        PERCENTILE_FIELD_NUMBER: _ClassVar[int]
        COMPRESSION_FIELD_NUMBER: _ClassVar[int]
        percentile: float
        compression: float
        def __init__(self, percentile: _Optional[float] = ..., compression: _Optional[float] = ...) -> None: ...
    class AggSpecCountDistinct(_message.Message):
        __slots__ = ("count_nulls",)
        COUNT_NULLS_FIELD_NUMBER: _ClassVar[int]
        count_nulls: bool
        def __init__(self, count_nulls: _Optional[bool] = ...) -> None: ...
    class AggSpecDistinct(_message.Message):
        __slots__ = ("include_nulls",)
        INCLUDE_NULLS_FIELD_NUMBER: _ClassVar[int]
        include_nulls: bool
        def __init__(self, include_nulls: _Optional[bool] = ...) -> None: ...
    class AggSpecFormula(_message.Message):
        __slots__ = ("formula", "param_token")
        FORMULA_FIELD_NUMBER: _ClassVar[int]
        PARAM_TOKEN_FIELD_NUMBER: _ClassVar[int]
        formula: str
        param_token: str
        def __init__(self, formula: _Optional[str] = ..., param_token: _Optional[str] = ...) -> None: ...
    class AggSpecMedian(_message.Message):
        __slots__ = ("average_evenly_divided",)
        AVERAGE_EVENLY_DIVIDED_FIELD_NUMBER: _ClassVar[int]
        average_evenly_divided: bool
        def __init__(self, average_evenly_divided: _Optional[bool] = ...) -> None: ...
    class AggSpecPercentile(_message.Message):
        __slots__ = ("percentile", "average_evenly_divided")
        PERCENTILE_FIELD_NUMBER: _ClassVar[int]
        AVERAGE_EVENLY_DIVIDED_FIELD_NUMBER: _ClassVar[int]
        percentile: float
        average_evenly_divided: bool
        def __init__(self, percentile: _Optional[float] = ..., average_evenly_divided: _Optional[bool] = ...) -> None: ...
    class AggSpecSorted(_message.Message):
        __slots__ = ("columns",)
        COLUMNS_FIELD_NUMBER: _ClassVar[int]
        columns: _containers.RepeatedCompositeFieldContainer[AggSpec.AggSpecSortedColumn]
        def __init__(self, columns: _Optional[_Iterable[_Union[AggSpec.AggSpecSortedColumn, _Mapping]]] = ...) -> None: ...
    class AggSpecSortedColumn(_message.Message):
        __slots__ = ("column_name",)
        COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
        column_name: str
        def __init__(self, column_name: _Optional[str] = ...) -> None: ...
    class AggSpecUnique(_message.Message):
        __slots__ = ("include_nulls", "non_unique_sentinel")
        INCLUDE_NULLS_FIELD_NUMBER: _ClassVar[int]
        NON_UNIQUE_SENTINEL_FIELD_NUMBER: _ClassVar[int]
        include_nulls: bool
        non_unique_sentinel: AggSpec.AggSpecNonUniqueSentinel
        def __init__(self, include_nulls: _Optional[bool] = ..., non_unique_sentinel: _Optional[_Union[AggSpec.AggSpecNonUniqueSentinel, _Mapping]] = ...) -> None: ...
    class AggSpecNonUniqueSentinel(_message.Message):
        __slots__ = ("null_value", "string_value", "int_value", "long_value", "float_value", "double_value", "bool_value", "byte_value", "short_value", "char_value")
        NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
        STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
        INT_VALUE_FIELD_NUMBER: _ClassVar[int]
        LONG_VALUE_FIELD_NUMBER: _ClassVar[int]
        FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
        DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
        BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
        BYTE_VALUE_FIELD_NUMBER: _ClassVar[int]
        SHORT_VALUE_FIELD_NUMBER: _ClassVar[int]
        CHAR_VALUE_FIELD_NUMBER: _ClassVar[int]
        null_value: NullValue
        string_value: str
        int_value: int
        long_value: int
        float_value: float
        double_value: float
        bool_value: bool
        byte_value: int
        short_value: int
        char_value: int
        def __init__(self, null_value: _Optional[_Union[NullValue, str]] = ..., string_value: _Optional[str] = ..., int_value: _Optional[int] = ..., long_value: _Optional[int] = ..., float_value: _Optional[float] = ..., double_value: _Optional[float] = ..., bool_value: _Optional[bool] = ..., byte_value: _Optional[int] = ..., short_value: _Optional[int] = ..., char_value: _Optional[int] = ...) -> None: ...
    class AggSpecWeighted(_message.Message):
        __slots__ = ("weight_column",)
        WEIGHT_COLUMN_FIELD_NUMBER: _ClassVar[int]
        weight_column: str
        def __init__(self, weight_column: _Optional[str] = ...) -> None: ...
    class AggSpecAbsSum(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecAvg(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecFirst(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecGroup(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecLast(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecMax(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecMin(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecStd(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecSum(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AggSpecVar(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    ABS_SUM_FIELD_NUMBER: _ClassVar[int]
    APPROXIMATE_PERCENTILE_FIELD_NUMBER: _ClassVar[int]
    AVG_FIELD_NUMBER: _ClassVar[int]
    COUNT_DISTINCT_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    PERCENTILE_FIELD_NUMBER: _ClassVar[int]
    SORTED_FIRST_FIELD_NUMBER: _ClassVar[int]
    SORTED_LAST_FIELD_NUMBER: _ClassVar[int]
    STD_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_AVG_FIELD_NUMBER: _ClassVar[int]
    WEIGHTED_SUM_FIELD_NUMBER: _ClassVar[int]
    VAR_FIELD_NUMBER: _ClassVar[int]
    abs_sum: AggSpec.AggSpecAbsSum
    approximate_percentile: AggSpec.AggSpecApproximatePercentile
    avg: AggSpec.AggSpecAvg
    count_distinct: AggSpec.AggSpecCountDistinct
    distinct: AggSpec.AggSpecDistinct
    first: AggSpec.AggSpecFirst
    formula: AggSpec.AggSpecFormula
    group: AggSpec.AggSpecGroup
    last: AggSpec.AggSpecLast
    max: AggSpec.AggSpecMax
    median: AggSpec.AggSpecMedian
    min: AggSpec.AggSpecMin
    percentile: AggSpec.AggSpecPercentile
    sorted_first: AggSpec.AggSpecSorted
    sorted_last: AggSpec.AggSpecSorted
    std: AggSpec.AggSpecStd
    sum: AggSpec.AggSpecSum
    unique: AggSpec.AggSpecUnique
    weighted_avg: AggSpec.AggSpecWeighted
    weighted_sum: AggSpec.AggSpecWeighted
    var: AggSpec.AggSpecVar
    def __init__(self, abs_sum: _Optional[_Union[AggSpec.AggSpecAbsSum, _Mapping]] = ..., approximate_percentile: _Optional[_Union[AggSpec.AggSpecApproximatePercentile, _Mapping]] = ..., avg: _Optional[_Union[AggSpec.AggSpecAvg, _Mapping]] = ..., count_distinct: _Optional[_Union[AggSpec.AggSpecCountDistinct, _Mapping]] = ..., distinct: _Optional[_Union[AggSpec.AggSpecDistinct, _Mapping]] = ..., first: _Optional[_Union[AggSpec.AggSpecFirst, _Mapping]] = ..., formula: _Optional[_Union[AggSpec.AggSpecFormula, _Mapping]] = ..., group: _Optional[_Union[AggSpec.AggSpecGroup, _Mapping]] = ..., last: _Optional[_Union[AggSpec.AggSpecLast, _Mapping]] = ..., max: _Optional[_Union[AggSpec.AggSpecMax, _Mapping]] = ..., median: _Optional[_Union[AggSpec.AggSpecMedian, _Mapping]] = ..., min: _Optional[_Union[AggSpec.AggSpecMin, _Mapping]] = ..., percentile: _Optional[_Union[AggSpec.AggSpecPercentile, _Mapping]] = ..., sorted_first: _Optional[_Union[AggSpec.AggSpecSorted, _Mapping]] = ..., sorted_last: _Optional[_Union[AggSpec.AggSpecSorted, _Mapping]] = ..., std: _Optional[_Union[AggSpec.AggSpecStd, _Mapping]] = ..., sum: _Optional[_Union[AggSpec.AggSpecSum, _Mapping]] = ..., unique: _Optional[_Union[AggSpec.AggSpecUnique, _Mapping]] = ..., weighted_avg: _Optional[_Union[AggSpec.AggSpecWeighted, _Mapping]] = ..., weighted_sum: _Optional[_Union[AggSpec.AggSpecWeighted, _Mapping]] = ..., var: _Optional[_Union[AggSpec.AggSpecVar, _Mapping]] = ...) -> None: ...

class AggregateAllRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "spec", "group_by_columns")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    spec: AggSpec
    group_by_columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., spec: _Optional[_Union[AggSpec, _Mapping]] = ..., group_by_columns: _Optional[_Iterable[str]] = ...) -> None: ...

class Selectable(_message.Message):
    __slots__ = ("raw",)
    RAW_FIELD_NUMBER: _ClassVar[int]
    raw: str
    def __init__(self, raw: _Optional[str] = ...) -> None: ...

class Aggregation(_message.Message):
    __slots__ = ("columns", "count", "first_row_key", "last_row_key", "partition", "formula", "count_where")
    class AggregationColumns(_message.Message):
        __slots__ = ("spec", "match_pairs")
        SPEC_FIELD_NUMBER: _ClassVar[int]
        MATCH_PAIRS_FIELD_NUMBER: _ClassVar[int]
        spec: AggSpec
        match_pairs: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, spec: _Optional[_Union[AggSpec, _Mapping]] = ..., match_pairs: _Optional[_Iterable[str]] = ...) -> None: ...
    class AggregationCount(_message.Message):
        __slots__ = ("column_name",)
        COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
        column_name: str
        def __init__(self, column_name: _Optional[str] = ...) -> None: ...
    class AggregationCountWhere(_message.Message):
        __slots__ = ("column_name", "filters")
        COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
        FILTERS_FIELD_NUMBER: _ClassVar[int]
        column_name: str
        filters: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, column_name: _Optional[str] = ..., filters: _Optional[_Iterable[str]] = ...) -> None: ...
    class AggregationRowKey(_message.Message):
        __slots__ = ("column_name",)
        COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
        column_name: str
        def __init__(self, column_name: _Optional[str] = ...) -> None: ...
    class AggregationPartition(_message.Message):
        __slots__ = ("column_name", "include_group_by_columns")
        COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
        INCLUDE_GROUP_BY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
        column_name: str
        include_group_by_columns: bool
        def __init__(self, column_name: _Optional[str] = ..., include_group_by_columns: _Optional[bool] = ...) -> None: ...
    class AggregationFormula(_message.Message):
        __slots__ = ("selectable",)
        SELECTABLE_FIELD_NUMBER: _ClassVar[int]
        selectable: Selectable
        def __init__(self, selectable: _Optional[_Union[Selectable, _Mapping]] = ...) -> None: ...
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_KEY_FIELD_NUMBER: _ClassVar[int]
    LAST_ROW_KEY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    COUNT_WHERE_FIELD_NUMBER: _ClassVar[int]
    columns: Aggregation.AggregationColumns
    count: Aggregation.AggregationCount
    first_row_key: Aggregation.AggregationRowKey
    last_row_key: Aggregation.AggregationRowKey
    partition: Aggregation.AggregationPartition
    formula: Aggregation.AggregationFormula
    count_where: Aggregation.AggregationCountWhere
    def __init__(self, columns: _Optional[_Union[Aggregation.AggregationColumns, _Mapping]] = ..., count: _Optional[_Union[Aggregation.AggregationCount, _Mapping]] = ..., first_row_key: _Optional[_Union[Aggregation.AggregationRowKey, _Mapping]] = ..., last_row_key: _Optional[_Union[Aggregation.AggregationRowKey, _Mapping]] = ..., partition: _Optional[_Union[Aggregation.AggregationPartition, _Mapping]] = ..., formula: _Optional[_Union[Aggregation.AggregationFormula, _Mapping]] = ..., count_where: _Optional[_Union[Aggregation.AggregationCountWhere, _Mapping]] = ...) -> None: ...

class AggregateRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "initial_groups_id", "preserve_empty", "aggregations", "group_by_columns")
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    INITIAL_GROUPS_ID_FIELD_NUMBER: _ClassVar[int]
    PRESERVE_EMPTY_FIELD_NUMBER: _ClassVar[int]
    AGGREGATIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    initial_groups_id: _deephaven_pb2.TableReference
    preserve_empty: bool
    aggregations: _containers.RepeatedCompositeFieldContainer[Aggregation]
    group_by_columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., initial_groups_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., preserve_empty: _Optional[bool] = ..., aggregations: _Optional[_Iterable[_Union[Aggregation, _Mapping]]] = ..., group_by_columns: _Optional[_Iterable[str]] = ...) -> None: ...

class ComboAggregateRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "aggregates", "group_by_columns", "force_combo")
    class AggType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUM: _ClassVar[ComboAggregateRequest.AggType]
        ABS_SUM: _ClassVar[ComboAggregateRequest.AggType]
        GROUP: _ClassVar[ComboAggregateRequest.AggType]
        AVG: _ClassVar[ComboAggregateRequest.AggType]
        COUNT: _ClassVar[ComboAggregateRequest.AggType]
        FIRST: _ClassVar[ComboAggregateRequest.AggType]
        LAST: _ClassVar[ComboAggregateRequest.AggType]
        MIN: _ClassVar[ComboAggregateRequest.AggType]
        MAX: _ClassVar[ComboAggregateRequest.AggType]
        MEDIAN: _ClassVar[ComboAggregateRequest.AggType]
        PERCENTILE: _ClassVar[ComboAggregateRequest.AggType]
        STD: _ClassVar[ComboAggregateRequest.AggType]
        VAR: _ClassVar[ComboAggregateRequest.AggType]
        WEIGHTED_AVG: _ClassVar[ComboAggregateRequest.AggType]
    SUM: ComboAggregateRequest.AggType
    ABS_SUM: ComboAggregateRequest.AggType
    GROUP: ComboAggregateRequest.AggType
    AVG: ComboAggregateRequest.AggType
    COUNT: ComboAggregateRequest.AggType
    FIRST: ComboAggregateRequest.AggType
    LAST: ComboAggregateRequest.AggType
    MIN: ComboAggregateRequest.AggType
    MAX: ComboAggregateRequest.AggType
    MEDIAN: ComboAggregateRequest.AggType
    PERCENTILE: ComboAggregateRequest.AggType
    STD: ComboAggregateRequest.AggType
    VAR: ComboAggregateRequest.AggType
    WEIGHTED_AVG: ComboAggregateRequest.AggType
    class Aggregate(_message.Message):
        __slots__ = ("type", "match_pairs", "column_name", "percentile", "avg_median")
        TYPE_FIELD_NUMBER: _ClassVar[int]
        MATCH_PAIRS_FIELD_NUMBER: _ClassVar[int]
        COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
        PERCENTILE_FIELD_NUMBER: _ClassVar[int]
        AVG_MEDIAN_FIELD_NUMBER: _ClassVar[int]
        type: ComboAggregateRequest.AggType
        match_pairs: _containers.RepeatedScalarFieldContainer[str]
        column_name: str
        percentile: float
        avg_median: bool
        def __init__(self, type: _Optional[_Union[ComboAggregateRequest.AggType, str]] = ..., match_pairs: _Optional[_Iterable[str]] = ..., column_name: _Optional[str] = ..., percentile: _Optional[float] = ..., avg_median: _Optional[bool] = ...) -> None: ...
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FORCE_COMBO_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    aggregates: _containers.RepeatedCompositeFieldContainer[ComboAggregateRequest.Aggregate]
    group_by_columns: _containers.RepeatedScalarFieldContainer[str]
    force_combo: bool
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., aggregates: _Optional[_Iterable[_Union[ComboAggregateRequest.Aggregate, _Mapping]]] = ..., group_by_columns: _Optional[_Iterable[str]] = ..., force_combo: _Optional[bool] = ...) -> None: ...

class Reference(_message.Message):
    __slots__ = ("column_name",)
    COLUMN_NAME_FIELD_NUMBER: _ClassVar[int]
    column_name: str
    def __init__(self, column_name: _Optional[str] = ...) -> None: ...

class Literal(_message.Message):
    __slots__ = ("string_value", "double_value", "bool_value", "long_value", "nano_time_value")
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    LONG_VALUE_FIELD_NUMBER: _ClassVar[int]
    NANO_TIME_VALUE_FIELD_NUMBER: _ClassVar[int]
    string_value: str
    double_value: float
    bool_value: bool
    long_value: int
    nano_time_value: int
    def __init__(self, string_value: _Optional[str] = ..., double_value: _Optional[float] = ..., bool_value: _Optional[bool] = ..., long_value: _Optional[int] = ..., nano_time_value: _Optional[int] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("reference", "literal")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    literal: Literal
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ..., literal: _Optional[_Union[Literal, _Mapping]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("compare", "invoke", "is_null", "matches", "contains", "search", "is_nan")
    AND_FIELD_NUMBER: _ClassVar[int]
    OR_FIELD_NUMBER: _ClassVar[int]
    NOT_FIELD_NUMBER: _ClassVar[int]
    COMPARE_FIELD_NUMBER: _ClassVar[int]
    IN_FIELD_NUMBER: _ClassVar[int]
    INVOKE_FIELD_NUMBER: _ClassVar[int]
    IS_NULL_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    IS_NAN_FIELD_NUMBER: _ClassVar[int]
    compare: CompareCondition
    invoke: InvokeCondition
    is_null: IsNullCondition
    matches: MatchesCondition
    contains: ContainsCondition
    search: SearchCondition
    is_nan: IsNaNCondition
    def __init__(self, compare: _Optional[_Union[CompareCondition, _Mapping]] = ..., invoke: _Optional[_Union[InvokeCondition, _Mapping]] = ..., is_null: _Optional[_Union[IsNullCondition, _Mapping]] = ..., matches: _Optional[_Union[MatchesCondition, _Mapping]] = ..., contains: _Optional[_Union[ContainsCondition, _Mapping]] = ..., search: _Optional[_Union[SearchCondition, _Mapping]] = ..., is_nan: _Optional[_Union[IsNaNCondition, _Mapping]] = ..., **kwargs) -> None: ...

class AndCondition(_message.Message):
    __slots__ = ("filters",)
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, filters: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class OrCondition(_message.Message):
    __slots__ = ("filters",)
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, filters: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class NotCondition(_message.Message):
    __slots__ = ("filter",)
    FILTER_FIELD_NUMBER: _ClassVar[int]
    filter: Condition
    def __init__(self, filter: _Optional[_Union[Condition, _Mapping]] = ...) -> None: ...

class CompareCondition(_message.Message):
    __slots__ = ("operation", "case_sensitivity", "lhs", "rhs")
    class CompareOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LESS_THAN: _ClassVar[CompareCondition.CompareOperation]
        LESS_THAN_OR_EQUAL: _ClassVar[CompareCondition.CompareOperation]
        GREATER_THAN: _ClassVar[CompareCondition.CompareOperation]
        GREATER_THAN_OR_EQUAL: _ClassVar[CompareCondition.CompareOperation]
        EQUALS: _ClassVar[CompareCondition.CompareOperation]
        NOT_EQUALS: _ClassVar[CompareCondition.CompareOperation]
    LESS_THAN: CompareCondition.CompareOperation
    LESS_THAN_OR_EQUAL: CompareCondition.CompareOperation
    GREATER_THAN: CompareCondition.CompareOperation
    GREATER_THAN_OR_EQUAL: CompareCondition.CompareOperation
    EQUALS: CompareCondition.CompareOperation
    NOT_EQUALS: CompareCondition.CompareOperation
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    CASE_SENSITIVITY_FIELD_NUMBER: _ClassVar[int]
    LHS_FIELD_NUMBER: _ClassVar[int]
    RHS_FIELD_NUMBER: _ClassVar[int]
    operation: CompareCondition.CompareOperation
    case_sensitivity: CaseSensitivity
    lhs: Value
    rhs: Value
    def __init__(self, operation: _Optional[_Union[CompareCondition.CompareOperation, str]] = ..., case_sensitivity: _Optional[_Union[CaseSensitivity, str]] = ..., lhs: _Optional[_Union[Value, _Mapping]] = ..., rhs: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class InCondition(_message.Message):
    __slots__ = ("target", "candidates", "case_sensitivity", "match_type")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    CASE_SENSITIVITY_FIELD_NUMBER: _ClassVar[int]
    MATCH_TYPE_FIELD_NUMBER: _ClassVar[int]
    target: Value
    candidates: _containers.RepeatedCompositeFieldContainer[Value]
    case_sensitivity: CaseSensitivity
    match_type: MatchType
    def __init__(self, target: _Optional[_Union[Value, _Mapping]] = ..., candidates: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., case_sensitivity: _Optional[_Union[CaseSensitivity, str]] = ..., match_type: _Optional[_Union[MatchType, str]] = ...) -> None: ...

class InvokeCondition(_message.Message):
    __slots__ = ("method", "target", "arguments")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    method: str
    target: Value
    arguments: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, method: _Optional[str] = ..., target: _Optional[_Union[Value, _Mapping]] = ..., arguments: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class IsNullCondition(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ...) -> None: ...

class IsNaNCondition(_message.Message):
    __slots__ = ("reference",)
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ...) -> None: ...

class MatchesCondition(_message.Message):
    __slots__ = ("reference", "regex", "case_sensitivity", "match_type")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    CASE_SENSITIVITY_FIELD_NUMBER: _ClassVar[int]
    MATCH_TYPE_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    regex: str
    case_sensitivity: CaseSensitivity
    match_type: MatchType
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ..., regex: _Optional[str] = ..., case_sensitivity: _Optional[_Union[CaseSensitivity, str]] = ..., match_type: _Optional[_Union[MatchType, str]] = ...) -> None: ...

class ContainsCondition(_message.Message):
    __slots__ = ("reference", "search_string", "case_sensitivity", "match_type")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_STRING_FIELD_NUMBER: _ClassVar[int]
    CASE_SENSITIVITY_FIELD_NUMBER: _ClassVar[int]
    MATCH_TYPE_FIELD_NUMBER: _ClassVar[int]
    reference: Reference
    search_string: str
    case_sensitivity: CaseSensitivity
    match_type: MatchType
    def __init__(self, reference: _Optional[_Union[Reference, _Mapping]] = ..., search_string: _Optional[str] = ..., case_sensitivity: _Optional[_Union[CaseSensitivity, str]] = ..., match_type: _Optional[_Union[MatchType, str]] = ...) -> None: ...

class SearchCondition(_message.Message):
    __slots__ = ("search_string", "optional_references")
    SEARCH_STRING_FIELD_NUMBER: _ClassVar[int]
    OPTIONAL_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    search_string: str
    optional_references: _containers.RepeatedCompositeFieldContainer[Reference]
    def __init__(self, search_string: _Optional[str] = ..., optional_references: _Optional[_Iterable[_Union[Reference, _Mapping]]] = ...) -> None: ...

class UpdateByWindowScale(_message.Message):
    __slots__ = ("ticks", "time")
    class UpdateByWindowTicks(_message.Message):
        __slots__ = ("ticks",)
        TICKS_FIELD_NUMBER: _ClassVar[int]
        ticks: float
        def __init__(self, ticks: _Optional[float] = ...) -> None: ...
    class UpdateByWindowTime(_message.Message):
        __slots__ = ("column", "nanos", "duration_string")
        COLUMN_FIELD_NUMBER: _ClassVar[int]
        NANOS_FIELD_NUMBER: _ClassVar[int]
        DURATION_STRING_FIELD_NUMBER: _ClassVar[int]
        column: str
        nanos: int
        duration_string: str
        def __init__(self, column: _Optional[str] = ..., nanos: _Optional[int] = ..., duration_string: _Optional[str] = ...) -> None: ...
    TICKS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ticks: UpdateByWindowScale.UpdateByWindowTicks
    time: UpdateByWindowScale.UpdateByWindowTime
    def __init__(self, ticks: _Optional[_Union[UpdateByWindowScale.UpdateByWindowTicks, _Mapping]] = ..., time: _Optional[_Union[UpdateByWindowScale.UpdateByWindowTime, _Mapping]] = ...) -> None: ...

class UpdateByEmOptions(_message.Message):
    __slots__ = ("on_null_value", "on_nan_value", "on_null_time", "on_negative_delta_time", "on_zero_delta_time")
    ON_NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    ON_NAN_VALUE_FIELD_NUMBER: _ClassVar[int]
    ON_NULL_TIME_FIELD_NUMBER: _ClassVar[int]
    ON_NEGATIVE_DELTA_TIME_FIELD_NUMBER: _ClassVar[int]
    ON_ZERO_DELTA_TIME_FIELD_NUMBER: _ClassVar[int]
    on_null_value: BadDataBehavior
    on_nan_value: BadDataBehavior
    on_null_time: BadDataBehavior
    on_negative_delta_time: BadDataBehavior
    on_zero_delta_time: BadDataBehavior
    def __init__(self, on_null_value: _Optional[_Union[BadDataBehavior, str]] = ..., on_nan_value: _Optional[_Union[BadDataBehavior, str]] = ..., on_null_time: _Optional[_Union[BadDataBehavior, str]] = ..., on_negative_delta_time: _Optional[_Union[BadDataBehavior, str]] = ..., on_zero_delta_time: _Optional[_Union[BadDataBehavior, str]] = ...) -> None: ...

class UpdateByDeltaOptions(_message.Message):
    __slots__ = ("null_behavior",)
    NULL_BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    null_behavior: UpdateByNullBehavior
    def __init__(self, null_behavior: _Optional[_Union[UpdateByNullBehavior, str]] = ...) -> None: ...

class UpdateByRequest(_message.Message):
    __slots__ = ("result_id", "source_id", "operations", "group_by_columns")
    class UpdateByOperation(_message.Message):
        __slots__ = ("column",)
        class UpdateByColumn(_message.Message):
            __slots__ = ("spec", "match_pairs")
            class UpdateBySpec(_message.Message):
                __slots__ = ("sum", "min", "max", "product", "fill", "ema", "rolling_sum", "rolling_group", "rolling_avg", "rolling_min", "rolling_max", "rolling_product", "delta", "ems", "em_min", "em_max", "em_std", "rolling_count", "rolling_std", "rolling_wavg", "rolling_formula", "rolling_count_where", "count_where")
                class UpdateByCumulativeSum(_message.Message):
                    __slots__ = ()
                    def __init__(self) -> None: ...
                class UpdateByCumulativeMin(_message.Message):
                    __slots__ = ()
                    def __init__(self) -> None: ...
                class UpdateByCumulativeMax(_message.Message):
                    __slots__ = ()
                    def __init__(self) -> None: ...
                class UpdateByCumulativeProduct(_message.Message):
                    __slots__ = ()
                    def __init__(self) -> None: ...
                class UpdateByFill(_message.Message):
                    __slots__ = ()
                    def __init__(self) -> None: ...
                class UpdateByEma(_message.Message):
                    __slots__ = ("options", "window_scale")
                    OPTIONS_FIELD_NUMBER: _ClassVar[int]
                    WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    options: UpdateByEmOptions
                    window_scale: UpdateByWindowScale
                    def __init__(self, options: _Optional[_Union[UpdateByEmOptions, _Mapping]] = ..., window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByEms(_message.Message):
                    __slots__ = ("options", "window_scale")
                    OPTIONS_FIELD_NUMBER: _ClassVar[int]
                    WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    options: UpdateByEmOptions
                    window_scale: UpdateByWindowScale
                    def __init__(self, options: _Optional[_Union[UpdateByEmOptions, _Mapping]] = ..., window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByEmMin(_message.Message):
                    __slots__ = ("options", "window_scale")
                    OPTIONS_FIELD_NUMBER: _ClassVar[int]
                    WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    options: UpdateByEmOptions
                    window_scale: UpdateByWindowScale
                    def __init__(self, options: _Optional[_Union[UpdateByEmOptions, _Mapping]] = ..., window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByEmMax(_message.Message):
                    __slots__ = ("options", "window_scale")
                    OPTIONS_FIELD_NUMBER: _ClassVar[int]
                    WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    options: UpdateByEmOptions
                    window_scale: UpdateByWindowScale
                    def __init__(self, options: _Optional[_Union[UpdateByEmOptions, _Mapping]] = ..., window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByEmStd(_message.Message):
                    __slots__ = ("options", "window_scale")
                    OPTIONS_FIELD_NUMBER: _ClassVar[int]
                    WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    options: UpdateByEmOptions
                    window_scale: UpdateByWindowScale
                    def __init__(self, options: _Optional[_Union[UpdateByEmOptions, _Mapping]] = ..., window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByDelta(_message.Message):
                    __slots__ = ("options",)
                    OPTIONS_FIELD_NUMBER: _ClassVar[int]
                    options: UpdateByDeltaOptions
                    def __init__(self, options: _Optional[_Union[UpdateByDeltaOptions, _Mapping]] = ...) -> None: ...
                class UpdateByRollingSum(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingGroup(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingAvg(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingMin(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingMax(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingProduct(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingCount(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingStd(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ...) -> None: ...
                class UpdateByRollingWAvg(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale", "weight_column")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    WEIGHT_COLUMN_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    weight_column: str
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., weight_column: _Optional[str] = ...) -> None: ...
                class UpdateByRollingFormula(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale", "formula", "param_token")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORMULA_FIELD_NUMBER: _ClassVar[int]
                    PARAM_TOKEN_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    formula: str
                    param_token: str
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., formula: _Optional[str] = ..., param_token: _Optional[str] = ...) -> None: ...
                class UpdateByRollingCountWhere(_message.Message):
                    __slots__ = ("reverse_window_scale", "forward_window_scale", "result_column", "filters")
                    REVERSE_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    FORWARD_WINDOW_SCALE_FIELD_NUMBER: _ClassVar[int]
                    RESULT_COLUMN_FIELD_NUMBER: _ClassVar[int]
                    FILTERS_FIELD_NUMBER: _ClassVar[int]
                    reverse_window_scale: UpdateByWindowScale
                    forward_window_scale: UpdateByWindowScale
                    result_column: str
                    filters: _containers.RepeatedScalarFieldContainer[str]
                    def __init__(self, reverse_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., forward_window_scale: _Optional[_Union[UpdateByWindowScale, _Mapping]] = ..., result_column: _Optional[str] = ..., filters: _Optional[_Iterable[str]] = ...) -> None: ...
                class UpdateByCumulativeCountWhere(_message.Message):
                    __slots__ = ("result_column", "filters")
                    RESULT_COLUMN_FIELD_NUMBER: _ClassVar[int]
                    FILTERS_FIELD_NUMBER: _ClassVar[int]
                    result_column: str
                    filters: _containers.RepeatedScalarFieldContainer[str]
                    def __init__(self, result_column: _Optional[str] = ..., filters: _Optional[_Iterable[str]] = ...) -> None: ...
                SUM_FIELD_NUMBER: _ClassVar[int]
                MIN_FIELD_NUMBER: _ClassVar[int]
                MAX_FIELD_NUMBER: _ClassVar[int]
                PRODUCT_FIELD_NUMBER: _ClassVar[int]
                FILL_FIELD_NUMBER: _ClassVar[int]
                EMA_FIELD_NUMBER: _ClassVar[int]
                ROLLING_SUM_FIELD_NUMBER: _ClassVar[int]
                ROLLING_GROUP_FIELD_NUMBER: _ClassVar[int]
                ROLLING_AVG_FIELD_NUMBER: _ClassVar[int]
                ROLLING_MIN_FIELD_NUMBER: _ClassVar[int]
                ROLLING_MAX_FIELD_NUMBER: _ClassVar[int]
                ROLLING_PRODUCT_FIELD_NUMBER: _ClassVar[int]
                DELTA_FIELD_NUMBER: _ClassVar[int]
                EMS_FIELD_NUMBER: _ClassVar[int]
                EM_MIN_FIELD_NUMBER: _ClassVar[int]
                EM_MAX_FIELD_NUMBER: _ClassVar[int]
                EM_STD_FIELD_NUMBER: _ClassVar[int]
                ROLLING_COUNT_FIELD_NUMBER: _ClassVar[int]
                ROLLING_STD_FIELD_NUMBER: _ClassVar[int]
                ROLLING_WAVG_FIELD_NUMBER: _ClassVar[int]
                ROLLING_FORMULA_FIELD_NUMBER: _ClassVar[int]
                ROLLING_COUNT_WHERE_FIELD_NUMBER: _ClassVar[int]
                COUNT_WHERE_FIELD_NUMBER: _ClassVar[int]
                sum: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeSum
                min: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeMin
                max: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeMax
                product: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeProduct
                fill: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByFill
                ema: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEma
                rolling_sum: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingSum
                rolling_group: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingGroup
                rolling_avg: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingAvg
                rolling_min: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingMin
                rolling_max: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingMax
                rolling_product: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingProduct
                delta: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByDelta
                ems: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEms
                em_min: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEmMin
                em_max: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEmMax
                em_std: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEmStd
                rolling_count: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingCount
                rolling_std: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingStd
                rolling_wavg: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingWAvg
                rolling_formula: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingFormula
                rolling_count_where: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingCountWhere
                count_where: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeCountWhere
                def __init__(self, sum: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeSum, _Mapping]] = ..., min: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeMin, _Mapping]] = ..., max: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeMax, _Mapping]] = ..., product: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeProduct, _Mapping]] = ..., fill: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByFill, _Mapping]] = ..., ema: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEma, _Mapping]] = ..., rolling_sum: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingSum, _Mapping]] = ..., rolling_group: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingGroup, _Mapping]] = ..., rolling_avg: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingAvg, _Mapping]] = ..., rolling_min: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingMin, _Mapping]] = ..., rolling_max: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingMax, _Mapping]] = ..., rolling_product: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingProduct, _Mapping]] = ..., delta: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByDelta, _Mapping]] = ..., ems: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEms, _Mapping]] = ..., em_min: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEmMin, _Mapping]] = ..., em_max: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEmMax, _Mapping]] = ..., em_std: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByEmStd, _Mapping]] = ..., rolling_count: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingCount, _Mapping]] = ..., rolling_std: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingStd, _Mapping]] = ..., rolling_wavg: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingWAvg, _Mapping]] = ..., rolling_formula: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingFormula, _Mapping]] = ..., rolling_count_where: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByRollingCountWhere, _Mapping]] = ..., count_where: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec.UpdateByCumulativeCountWhere, _Mapping]] = ...) -> None: ...
            SPEC_FIELD_NUMBER: _ClassVar[int]
            MATCH_PAIRS_FIELD_NUMBER: _ClassVar[int]
            spec: UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec
            match_pairs: _containers.RepeatedScalarFieldContainer[str]
            def __init__(self, spec: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn.UpdateBySpec, _Mapping]] = ..., match_pairs: _Optional[_Iterable[str]] = ...) -> None: ...
        COLUMN_FIELD_NUMBER: _ClassVar[int]
        column: UpdateByRequest.UpdateByOperation.UpdateByColumn
        def __init__(self, column: _Optional[_Union[UpdateByRequest.UpdateByOperation.UpdateByColumn, _Mapping]] = ...) -> None: ...
    RESULT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    result_id: _deephaven_pb2.Ticket
    source_id: _deephaven_pb2.TableReference
    operations: _containers.RepeatedCompositeFieldContainer[UpdateByRequest.UpdateByOperation]
    group_by_columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, result_id: _Optional[_Union[_deephaven_pb2.Ticket, _Mapping]] = ..., source_id: _Optional[_Union[_deephaven_pb2.TableReference, _Mapping]] = ..., operations: _Optional[_Iterable[_Union[UpdateByRequest.UpdateByOperation, _Mapping]]] = ..., group_by_columns: _Optional[_Iterable[str]] = ...) -> None: ...

class BatchTableRequest(_message.Message):
    __slots__ = ("ops",)
    class Operation(_message.Message):
        __slots__ = ("empty_table", "time_table", "drop_columns", "update", "lazy_update", "view", "update_view", "select", "select_distinct", "filter", "unstructured_filter", "sort", "head", "tail", "head_by", "tail_by", "ungroup", "merge", "combo_aggregate", "flatten", "cross_join", "natural_join", "exact_join", "fetch_table", "apply_preview_columns", "create_input_table", "update_by", "where_in", "aggregate_all", "aggregate", "snapshot", "snapshot_when", "meta_table", "range_join", "aj", "raj", "multi_join", "slice")
        EMPTY_TABLE_FIELD_NUMBER: _ClassVar[int]
        TIME_TABLE_FIELD_NUMBER: _ClassVar[int]
        DROP_COLUMNS_FIELD_NUMBER: _ClassVar[int]
        UPDATE_FIELD_NUMBER: _ClassVar[int]
        LAZY_UPDATE_FIELD_NUMBER: _ClassVar[int]
        VIEW_FIELD_NUMBER: _ClassVar[int]
        UPDATE_VIEW_FIELD_NUMBER: _ClassVar[int]
        SELECT_FIELD_NUMBER: _ClassVar[int]
        SELECT_DISTINCT_FIELD_NUMBER: _ClassVar[int]
        FILTER_FIELD_NUMBER: _ClassVar[int]
        UNSTRUCTURED_FILTER_FIELD_NUMBER: _ClassVar[int]
        SORT_FIELD_NUMBER: _ClassVar[int]
        HEAD_FIELD_NUMBER: _ClassVar[int]
        TAIL_FIELD_NUMBER: _ClassVar[int]
        HEAD_BY_FIELD_NUMBER: _ClassVar[int]
        TAIL_BY_FIELD_NUMBER: _ClassVar[int]
        UNGROUP_FIELD_NUMBER: _ClassVar[int]
        MERGE_FIELD_NUMBER: _ClassVar[int]
        COMBO_AGGREGATE_FIELD_NUMBER: _ClassVar[int]
        FLATTEN_FIELD_NUMBER: _ClassVar[int]
        CROSS_JOIN_FIELD_NUMBER: _ClassVar[int]
        NATURAL_JOIN_FIELD_NUMBER: _ClassVar[int]
        EXACT_JOIN_FIELD_NUMBER: _ClassVar[int]
        FETCH_TABLE_FIELD_NUMBER: _ClassVar[int]
        APPLY_PREVIEW_COLUMNS_FIELD_NUMBER: _ClassVar[int]
        CREATE_INPUT_TABLE_FIELD_NUMBER: _ClassVar[int]
        UPDATE_BY_FIELD_NUMBER: _ClassVar[int]
        WHERE_IN_FIELD_NUMBER: _ClassVar[int]
        AGGREGATE_ALL_FIELD_NUMBER: _ClassVar[int]
        AGGREGATE_FIELD_NUMBER: _ClassVar[int]
        SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
        SNAPSHOT_WHEN_FIELD_NUMBER: _ClassVar[int]
        META_TABLE_FIELD_NUMBER: _ClassVar[int]
        RANGE_JOIN_FIELD_NUMBER: _ClassVar[int]
        AJ_FIELD_NUMBER: _ClassVar[int]
        RAJ_FIELD_NUMBER: _ClassVar[int]
        MULTI_JOIN_FIELD_NUMBER: _ClassVar[int]
        SLICE_FIELD_NUMBER: _ClassVar[int]
        empty_table: EmptyTableRequest
        time_table: TimeTableRequest
        drop_columns: DropColumnsRequest
        update: SelectOrUpdateRequest
        lazy_update: SelectOrUpdateRequest
        view: SelectOrUpdateRequest
        update_view: SelectOrUpdateRequest
        select: SelectOrUpdateRequest
        select_distinct: SelectDistinctRequest
        filter: FilterTableRequest
        unstructured_filter: UnstructuredFilterTableRequest
        sort: SortTableRequest
        head: HeadOrTailRequest
        tail: HeadOrTailRequest
        head_by: HeadOrTailByRequest
        tail_by: HeadOrTailByRequest
        ungroup: UngroupRequest
        merge: MergeTablesRequest
        combo_aggregate: ComboAggregateRequest
        flatten: FlattenRequest
        cross_join: CrossJoinTablesRequest
        natural_join: NaturalJoinTablesRequest
        exact_join: ExactJoinTablesRequest
        fetch_table: _deephaven_pb2.FetchTableRequest
        apply_preview_columns: _deephaven_pb2.ApplyPreviewColumnsRequest
        create_input_table: _deephaven_pb2.CreateInputTableRequest
        update_by: UpdateByRequest
        where_in: WhereInRequest
        aggregate_all: AggregateAllRequest
        aggregate: AggregateRequest
        snapshot: SnapshotTableRequest
        snapshot_when: SnapshotWhenTableRequest
        meta_table: MetaTableRequest
        range_join: RangeJoinTablesRequest
        aj: AjRajTablesRequest
        raj: AjRajTablesRequest
        multi_join: MultiJoinTablesRequest
        slice: SliceRequest
        def __init__(self, empty_table: _Optional[_Union[EmptyTableRequest, _Mapping]] = ..., time_table: _Optional[_Union[TimeTableRequest, _Mapping]] = ..., drop_columns: _Optional[_Union[DropColumnsRequest, _Mapping]] = ..., update: _Optional[_Union[SelectOrUpdateRequest, _Mapping]] = ..., lazy_update: _Optional[_Union[SelectOrUpdateRequest, _Mapping]] = ..., view: _Optional[_Union[SelectOrUpdateRequest, _Mapping]] = ..., update_view: _Optional[_Union[SelectOrUpdateRequest, _Mapping]] = ..., select: _Optional[_Union[SelectOrUpdateRequest, _Mapping]] = ..., select_distinct: _Optional[_Union[SelectDistinctRequest, _Mapping]] = ..., filter: _Optional[_Union[FilterTableRequest, _Mapping]] = ..., unstructured_filter: _Optional[_Union[UnstructuredFilterTableRequest, _Mapping]] = ..., sort: _Optional[_Union[SortTableRequest, _Mapping]] = ..., head: _Optional[_Union[HeadOrTailRequest, _Mapping]] = ..., tail: _Optional[_Union[HeadOrTailRequest, _Mapping]] = ..., head_by: _Optional[_Union[HeadOrTailByRequest, _Mapping]] = ..., tail_by: _Optional[_Union[HeadOrTailByRequest, _Mapping]] = ..., ungroup: _Optional[_Union[UngroupRequest, _Mapping]] = ..., merge: _Optional[_Union[MergeTablesRequest, _Mapping]] = ..., combo_aggregate: _Optional[_Union[ComboAggregateRequest, _Mapping]] = ..., flatten: _Optional[_Union[FlattenRequest, _Mapping]] = ..., cross_join: _Optional[_Union[CrossJoinTablesRequest, _Mapping]] = ..., natural_join: _Optional[_Union[NaturalJoinTablesRequest, _Mapping]] = ..., exact_join: _Optional[_Union[ExactJoinTablesRequest, _Mapping]] = ..., fetch_table: _Optional[_Union[_deephaven_pb2.FetchTableRequest, _Mapping]] = ..., apply_preview_columns: _Optional[_Union[_deephaven_pb2.ApplyPreviewColumnsRequest, _Mapping]] = ..., create_input_table: _Optional[_Union[_deephaven_pb2.CreateInputTableRequest, _Mapping]] = ..., update_by: _Optional[_Union[UpdateByRequest, _Mapping]] = ..., where_in: _Optional[_Union[WhereInRequest, _Mapping]] = ..., aggregate_all: _Optional[_Union[AggregateAllRequest, _Mapping]] = ..., aggregate: _Optional[_Union[AggregateRequest, _Mapping]] = ..., snapshot: _Optional[_Union[SnapshotTableRequest, _Mapping]] = ..., snapshot_when: _Optional[_Union[SnapshotWhenTableRequest, _Mapping]] = ..., meta_table: _Optional[_Union[MetaTableRequest, _Mapping]] = ..., range_join: _Optional[_Union[RangeJoinTablesRequest, _Mapping]] = ..., aj: _Optional[_Union[AjRajTablesRequest, _Mapping]] = ..., raj: _Optional[_Union[AjRajTablesRequest, _Mapping]] = ..., multi_join: _Optional[_Union[MultiJoinTablesRequest, _Mapping]] = ..., slice: _Optional[_Union[SliceRequest, _Mapping]] = ...) -> None: ...
    OPS_FIELD_NUMBER: _ClassVar[int]
    ops: _containers.RepeatedCompositeFieldContainer[BatchTableRequest.Operation]
    def __init__(self, ops: _Optional[_Iterable[_Union[BatchTableRequest.Operation, _Mapping]]] = ...) -> None: ...
