"""Conditions of Deephaven's clients as those of a plan (table.proto, ``Condition``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barrage_proto import table_pb2 as proto

from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan.condition import (
    All,
    AnyOf,
    Column,
    Compare,
    Comparison,
    Condition,
    Contains,
    Instant,
    IsNan,
    IsNull,
    Literal,
    Matches,
    Not,
    OneOf,
    Operand,
    Search,
)

__all__ = ["condition_of", "conditions_of"]

_COMPARISONS: Final = {
    proto.CompareCondition.LESS_THAN: Comparison.LESS,
    proto.CompareCondition.LESS_THAN_OR_EQUAL: Comparison.LESS_OR_EQUAL,
    proto.CompareCondition.GREATER_THAN: Comparison.GREATER,
    proto.CompareCondition.GREATER_THAN_OR_EQUAL: Comparison.GREATER_OR_EQUAL,
    proto.CompareCondition.EQUALS: Comparison.EQUAL,
    proto.CompareCondition.NOT_EQUALS: Comparison.NOT_EQUAL,
}
_OPPOSITES: Final = {
    Comparison.LESS: Comparison.GREATER_OR_EQUAL,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER,
    Comparison.GREATER: Comparison.LESS_OR_EQUAL,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS,
    Comparison.EQUAL: Comparison.NOT_EQUAL,
    Comparison.NOT_EQUAL: Comparison.EQUAL,
}


def conditions_of(messages: Iterable[proto.Condition]) -> tuple[Condition, ...]:
    """Conditions that must all hold. Raises what :func:`condition_of` does."""
    return tuple(map(condition_of, messages))


def condition_of(message: proto.Condition) -> Condition:
    """One condition.

    Raises:
        InvalidRequestError: a part of it is missing or makes no sense.
        UnsupportedOperationError: it calls a method.

    """
    match message.WhichOneof("data"):
        case "and":
            return All(conditions_of(getattr(message, "and").filters))
        case "or":
            return AnyOf(conditions_of(getattr(message, "or").filters))
        case "not":
            return _inverted(condition_of(getattr(message, "not").filter))
        case "compare":
            return _comparison(message.compare)
        case "in":
            return _one_of(getattr(message, "in"))
        case "is_null":
            return IsNull(Column(message.is_null.reference.column_name))
        case "is_nan":
            return IsNan(Column(message.is_nan.reference.column_name))
        case "matches":
            matches = message.matches
            column = Column(matches.reference.column_name)
            return Matches(column, matches.regex, _ignores_case(matches), _is_inverted(matches))
        case "contains":
            contains = message.contains
            column = Column(contains.reference.column_name)
            return Contains(column, contains.search_string, _ignores_case(contains), _is_inverted(contains))
        case "search":
            columns = tuple(Column(reference.column_name) for reference in message.search.optional_references)
            return Search(message.search.search_string, columns)
        case "invoke":
            raise UnsupportedOperationError(
                "Conditions that call a method are not known here. Write the condition as text, in a filter of strings."
            )
    raise InvalidRequestError("A condition of the filter is empty.")


def _inverted(condition: Condition) -> Condition:
    """The opposite, as a Deephaven server has it: that of ``<`` is ``>=``, which NaN does not meet either."""
    match condition:
        case All(conditions):
            return AnyOf(tuple(map(_inverted, conditions)))
        case AnyOf(conditions):
            return All(tuple(map(_inverted, conditions)))
        case Not(inner):
            return inner
        case Compare(comparison, left, right, ignores_case):
            return Compare(_OPPOSITES[comparison], left, right, ignores_case)
    return Not(condition)


def _comparison(message: proto.CompareCondition) -> Compare:
    comparison = _COMPARISONS.get(message.operation)
    if comparison is None:
        raise InvalidRequestError(f"There is no comparison {message.operation}.")
    return Compare(comparison, _operand(message.lhs), _operand(message.rhs), _ignores_case(message))


def _one_of(message: proto.InCondition) -> OneOf:
    candidates = tuple(map(_operand, message.candidates))
    return OneOf(_operand(message.target), candidates, _ignores_case(message), _is_inverted(message))


def _operand(value: proto.Value) -> Operand:
    kind = value.WhichOneof("data")
    if kind == "reference":
        return Column(value.reference.column_name)
    literal = value.literal.WhichOneof("value")
    if literal is None:
        raise InvalidRequestError("A comparison lacks a column or a value.")
    if literal == "nano_time_value":
        return Instant(value.literal.nano_time_value)
    found: Literal = getattr(value.literal, literal)
    return found


def _ignores_case(
    message: proto.CompareCondition | proto.InCondition | proto.MatchesCondition | proto.ContainsCondition,
) -> bool:
    return message.case_sensitivity == proto.IGNORE_CASE


def _is_inverted(message: proto.InCondition | proto.MatchesCondition | proto.ContainsCondition) -> bool:
    return message.match_type == proto.INVERTED
