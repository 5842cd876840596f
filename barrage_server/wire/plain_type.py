"""Which types are plain: every value stands for itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

from barrage_server.errors import UnsupportedTypeError

__all__ = ["is_bytes_like", "is_fixed_width", "plain_type"]


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The plain type that holds the values of ``data_type``, at every depth of nesting.

    Raises:
        UnsupportedTypeError: there is none (unions).

    """
    if isinstance(data_type, pa.BaseExtensionType):
        stored = plain_type(data_type.storage_type)
        return data_type if stored == data_type.storage_type else stored  # one of encoded values: as the values
    if pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if pat.is_string_view(data_type):
        return pa.string()
    if pat.is_binary_view(data_type):
        return pa.binary()
    if pat.is_map(data_type):
        return _plain_map(data_type)
    if pat.is_list(data_type):
        return _keep(data_type, pa.list_(_plain_field(data_type.value_field)))
    if pat.is_large_list(data_type):
        return _keep(data_type, pa.large_list(_plain_field(data_type.value_field)))
    if pat.is_list_view(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    if pat.is_large_list_view(data_type):
        return pa.large_list(_plain_field(data_type.value_field))
    if pat.is_fixed_size_list(data_type):
        return _keep(data_type, pa.list_(_plain_field(data_type.value_field), data_type.list_size))
    if pat.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return _keep(data_type, pa.struct([_plain_field(field) for field in fields]))
    if pat.is_null(data_type) or pat.is_boolean(data_type) or is_fixed_width(data_type) or is_bytes_like(data_type):
        return data_type
    if pat.is_fixed_size_binary(data_type):  # of width zero
        return data_type
    raise UnsupportedTypeError(
        f"Tables cannot hold the type {data_type}. Convert it before publishing; "
        "a union can become a struct with one field per member."
    )


def is_fixed_width(data_type: pa.DataType) -> bool:
    """Whether all values of a type that is not nested take the same number of bytes, which is not zero."""
    if pat.is_fixed_size_binary(data_type):
        return bool(data_type.byte_width > 0)
    return bool(
        pat.is_integer(data_type)
        or pat.is_floating(data_type)
        or pat.is_decimal(data_type)
        or pat.is_temporal(data_type)  # dates, times, timestamps, durations, intervals
    )


def is_bytes_like(data_type: pa.DataType) -> bool:
    """Whether values are texts or bytes."""
    return bool(
        pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
        or pat.is_fixed_size_binary(data_type)
    )


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def _plain_map(data_type: pa.DataType) -> pa.DataType:
    plain = pa.map_(
        _plain_field(data_type.key_field), _plain_field(data_type.item_field), keys_sorted=data_type.keys_sorted
    )
    return _keep(data_type, plain)


def _keep(data_type: pa.DataType, plain: pa.DataType) -> pa.DataType:
    """The given type itself when nothing in it had to change: rebuilding could lose details such as metadata of nested
    fields.
    """
    return data_type if plain == data_type else plain
