"""Conditions as messages of Deephaven, and back (``Condition`` of table.proto)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barrage_proto import table_pb2 as proto
from google.protobuf.message import Message

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

__all__ = ["condition_message", "condition_of", "conditions_of"]

_COMPARISONS: Final = {
    proto.CompareCondition.LESS_THAN: Comparison.LESS,
    proto.CompareCondition.LESS_THAN_OR_EQUAL: Comparison.LESS_OR_EQUAL,
    proto.CompareCondition.GREATER_THAN: Comparison.GREATER,
    proto.CompareCondition.GREATER_THAN_OR_EQUAL: Comparison.GREATER_OR_EQUAL,
    proto.CompareCondition.EQUALS: Comparison.EQUAL,
    proto.CompareCondition.NOT_EQUALS: Comparison.NOT_EQUAL,
}
_OPERATIONS: Final = {comparison: operation for operation, comparison in _COMPARISONS.items()}
_EQUALITIES: Final = (Comparison.EQUAL, Comparison.NOT_EQUAL)
_OPPOSITES: Final = {
    Comparison.LESS: Comparison.GREATER_OR_EQUAL,
    Comparison.LESS_OR_EQUAL: Comparison.GREATER,
    Comparison.GREATER: Comparison.LESS_OR_EQUAL,
    Comparison.GREATER_OR_EQUAL: Comparison.LESS,
    Comparison.EQUAL: Comparison.NOT_EQUAL,
    Comparison.NOT_EQUAL: Comparison.EQUAL,
}


def conditions_of(messages: Iterable[proto.Condition]) -> tuple[Condition, ...]:
    """Conditions that must all hold. Raises the errors of :func:`condition_of`."""
    return tuple(map(condition_of, messages))


def condition_of(message: proto.Condition) -> Condition:
    """Read one condition.

    Raises:
        InvalidRequestError: a part of the message is missing or makes no sense.
        UnsupportedOperationError: the condition calls a method.
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
    """The opposite of a condition; that of ``<`` is ``>=``, and NaN meets neither."""
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


def condition_message(condition: Condition) -> proto.Condition:
    """Write the message of one condition.

    Raises:
        UnsupportedOperationError: a Deephaven server would give the condition another meaning.
    """
    match condition:
        case Compare(comparison, left, right, ignores_case):
            if ignores_case:
                return condition_message(_without_case(condition))
            compare = proto.CompareCondition(operation=_OPERATIONS[comparison], lhs=_value(left), rhs=_value(right))
            return proto.Condition(compare=compare)
        case OneOf(target, candidates, ignores_case, inverted):
            one_of = proto.InCondition(
                target=_value(target),
                candidates=map(_value, candidates),
                case_sensitivity=_case(ignores_case),
                match_type=_match_type(inverted),
            )
            return _made("in", one_of)
        case IsNull(column):
            return proto.Condition(is_null=proto.IsNullCondition(reference=_reference(column)))
        case IsNan(column):
            return proto.Condition(is_nan=proto.IsNaNCondition(reference=_reference(column)))
        case Matches(column, pattern, ignores_case, inverted):
            matches = proto.MatchesCondition(
                reference=_reference(column),
                regex=pattern,
                case_sensitivity=_case(ignores_case),
                match_type=_match_type(inverted),
            )
            return proto.Condition(matches=matches)
        case Contains(column, text, ignores_case, inverted):
            contains = proto.ContainsCondition(
                reference=_reference(column),
                search_string=text,
                case_sensitivity=_case(ignores_case),
                match_type=_match_type(inverted),
            )
            return proto.Condition(contains=contains)
        case Search(text, columns):
            search = proto.SearchCondition(search_string=text, optional_references=map(_reference, columns))
            return proto.Condition(search=search)
        case Not(inner):
            if _orders(inner):
                raise UnsupportedOperationError(
                    "A Deephaven server has no opposite of '<', '<=', '>' and '>=' in trees of conditions that NaN "
                    "meets. Write the condition as text, such as '!(price < 5)'."
                )
            return _made("not", proto.NotCondition(filter=condition_message(inner)))
        case All(conditions):
            return _made("and", proto.AndCondition(filters=map(condition_message, conditions)))
        case AnyOf(conditions):
            return _made("or", proto.OrCondition(filters=map(condition_message, conditions)))
    raise UnsupportedOperationError(f"There is no message of Deephaven for a {type(condition).__name__}.")


def _without_case(condition: Compare) -> Compare | OneOf:
    """The same condition in a form that a Deephaven server (42.7) computes correctly.

    It computes each comparison without regard to case as ``==``, and a list of texts correctly.

    Raises:
        UnsupportedOperationError: the comparison is by order, or of two columns.
    """
    comparison, sides = condition.comparison, (condition.left, condition.right)
    texts = tuple(side for side in sides if isinstance(side, str))
    columns = tuple(side for side in sides if isinstance(side, Column))
    if len(columns) == 1 and not texts:
        return Compare(comparison, *sides)  # numbers, times and booleans have no case
    if comparison not in _EQUALITIES or not texts or not columns:
        raise UnsupportedOperationError(
            "A Deephaven server compares a column with a text without regard to case for equality alone. Write the "
            "condition as text, such as 'a.toLowerCase() < b.toLowerCase()'."
        )
    return OneOf(columns[0], texts, True, comparison is Comparison.NOT_EQUAL)


def _made(kind: str, message: Message) -> proto.Condition:
    """A condition whose kind is a keyword of Python."""
    made = proto.Condition()
    getattr(made, kind).CopyFrom(message)
    return made


def _orders(condition: Condition) -> bool:
    """Whether one of the comparisons is by order."""
    match condition:
        case Compare(comparison):
            return comparison not in _EQUALITIES
        case Not(inner):
            return _orders(inner)
        case All(conditions) | AnyOf(conditions):
            return any(map(_orders, conditions))
    return False


def _value(operand: Operand) -> proto.Value:
    match operand:
        case Column(_):
            return proto.Value(reference=_reference(operand))
        case Instant(nanoseconds):
            return proto.Value(literal=proto.Literal(nano_time_value=nanoseconds))
        case str():
            return proto.Value(literal=proto.Literal(string_value=operand))
        case bool():
            return proto.Value(literal=proto.Literal(bool_value=operand))
        case int():
            return proto.Value(literal=proto.Literal(long_value=operand))
        case float():
            return proto.Value(literal=proto.Literal(double_value=operand))
    raise UnsupportedOperationError(
        f"There is no literal of Deephaven for a {type(operand).__name__}. Write the condition as text."
    )


def _reference(column: Column) -> proto.Reference:
    return proto.Reference(column_name=column.name)


def _case(ignores_case: bool) -> proto.CaseSensitivity:
    return proto.IGNORE_CASE if ignores_case else proto.MATCH_CASE


def _match_type(inverted: bool) -> proto.MatchType:
    return proto.INVERTED if inverted else proto.REGULAR
