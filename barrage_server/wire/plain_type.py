"""Plain types: types without encodings."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pat

from barrage_server.errors import UnsupportedTypeError
from barrage_server.wire.soundness import MAX_DEPTH, check_storage

__all__ = ["is_bytes_like", "is_fixed_width", "plain_type"]


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the plain type of the values of ``data_type``, at each depth.

    Raises:
        UnsupportedTypeError: there is no plain type, or the type is nested too deep.

    """
    return _plain(data_type, 0)


def _plain(data_type: pa.DataType, depth: int) -> pa.DataType:
    if depth > MAX_DEPTH:
        raise UnsupportedTypeError(f"Types nested deeper than {MAX_DEPTH} levels are not supported.")

    def field(given: pa.Field) -> pa.Field:
        return given.with_type(_plain(given.type, depth + 1))

    check_storage(data_type)
    if isinstance(data_type, pa.BaseExtensionType):
        stored = _plain(data_type.storage_type, depth + 1)
        return (
            data_type if stored == data_type.storage_type else stored
        )  # an extension type of encoded values: as the values
    if pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        return _plain(data_type.value_type, depth + 1)
    if pat.is_string_view(data_type):
        return pa.string()
    if pat.is_binary_view(data_type):
        return pa.binary()
    if pat.is_map(data_type):
        key, item = field(data_type.key_field), field(data_type.item_field)
        return _keep(data_type, pa.map_(key, item, keys_sorted=data_type.keys_sorted))
    if pat.is_list(data_type):
        return _keep(data_type, pa.list_(field(data_type.value_field)))
    if pat.is_large_list(data_type):
        return _keep(data_type, pa.large_list(field(data_type.value_field)))
    if pat.is_list_view(data_type):
        return _keep(data_type, pa.list_view(field(data_type.value_field)))
    if pat.is_large_list_view(data_type):
        return _keep(data_type, pa.large_list_view(field(data_type.value_field)))
    if pat.is_fixed_size_list(data_type):
        if data_type.list_size < 0:  # Arrow reads it from a damaged schema without an error
            raise UnsupportedTypeError(f"Lists cannot have the fixed size {data_type.list_size}.")
        return _keep(data_type, pa.list_(field(data_type.value_field), data_type.list_size))
    if pat.is_struct(data_type):
        return _keep(data_type, pa.struct([field(data_type.field(place)) for place in range(data_type.num_fields)]))
    if pat.is_union(data_type):
        members = [field(data_type.field(place)) for place in range(data_type.num_fields)]
        return _keep(data_type, pa.union(members, data_type.mode, data_type.type_codes))
    if pat.is_null(data_type) or pat.is_boolean(data_type) or is_fixed_width(data_type) or is_bytes_like(data_type):
        return data_type
    if pat.is_fixed_size_binary(data_type):  # of width zero
        return data_type
    raise UnsupportedTypeError(f"Tables cannot hold the type {data_type}. Convert it before publishing.")


def is_fixed_width(data_type: pa.DataType) -> bool:
    """Whether all values of a type take the same number of bytes, above zero."""
    if pat.is_fixed_size_binary(data_type):
        return bool(data_type.byte_width > 0)
    return bool(
        pat.is_integer(data_type)
        or pat.is_floating(data_type)
        or pat.is_decimal(data_type)
        or pat.is_temporal(data_type)  # dates, times, timestamps, durations, intervals
    )


def is_bytes_like(data_type: pa.DataType) -> bool:
    """Whether values are texts or binary."""
    return bool(
        pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
        or pat.is_fixed_size_binary(data_type)
    )


def _keep(data_type: pa.DataType, plain: pa.DataType) -> pa.DataType:
    """Return ``data_type`` if it equals ``plain``, which may lack metadata of fields."""
    return data_type if plain == data_type else plain
