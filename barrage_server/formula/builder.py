"""Translation of a syntax tree to typed steps; equal parts share a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barrage_server.errors import InvalidRequestError, UnknownColumnError
from barrage_server.formula import arithmetic, comparison, texts
from barrage_server.formula.builtin import ANY, NUMBER, Builtin, Match
from barrage_server.formula.catalog import FUNCTIONS, METHODS
from barrage_server.formula.decimals import are_exact
from barrage_server.formula.functions import Functions, UserFunction
from barrage_server.formula.hints import function_hint, method_hint, name_hint, pair_hint
from barrage_server.formula.kinds import (
    BOOLEAN,
    DURATION,
    FLOAT,
    INSTANT,
    INT,
    INTEGERS,
    LOCAL_DATE,
    LOCAL_TIME,
    LONG,
    NULL,
    NUMBERS,
    PERIOD,
    STRING,
    ZONE,
    Kind,
    kind_of,
)
from barrage_server.formula.lexer import Text
from barrage_server.formula.literals import CONSTANTS, zone_name
from barrage_server.formula.steps import Apply, Run, Steps, Value
from barrage_server.formula.syntax import Form, Node
from barrage_server.formula.vectors import Cells, Vector, from_arrow, to_arrow

__all__ = ["build"]

_CLASSES: Final = ("Math", "Integer", "Long", "Double", "Float", "Boolean", "String", "Character")
"""Classes of Java whose static functions can be written with their class."""
_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_SHOWN_NAMES: Final = 8
_MOST_NAMES: Final = 5_000
"""Names that are compared with an unknown one, at most."""

_CASTS: Final = (BOOLEAN, *NUMBERS, STRING, INSTANT, LOCAL_DATE, LOCAL_TIME, DURATION)


def build(text: str | Text, tree: Node, columns: Mapping[str, pa.DataType], functions: Functions | None) -> Steps:
    """Translate a syntax tree to steps.

    Raises:
        UnknownColumnError: a name is no column.
        InvalidRequestError: there is no such function, or types do not go together; says where.

    """
    return _Builder(Text.of(text), columns, functions or Functions()).run(tree)


class _Builder:
    def __init__(self, text: Text, columns: Mapping[str, pa.DataType], functions: Functions) -> None:
        self._text = text
        self._columns = columns
        self._functions = functions
        self._steps = Steps()

    def run(self, tree: Node) -> Steps:
        """Build the tree from its leaves, without recursion."""
        todo: list[tuple[Node, bool]] = [(tree, False)]
        values: list[Value] = []
        while todo:
            node, is_ready = todo.pop()
            children = self._evaluated(node)
            if not is_ready and children:
                todo.append((node, True))
                todo.extend((child, False) for child in reversed(children))
                continue
            count = len(children)
            arguments = values[len(values) - count :]
            del values[len(values) - count :]
            values.append(self._make(node, arguments))
        self._steps.result = values[0].step
        return self._steps

    def _evaluated(self, node: Node) -> tuple[Node, ...]:
        """The children that are evaluated before the node."""
        if (node.form is Form.INDEX and self._array(node.children[0]) is not None) or self._is_static(node):
            return node.children[1:]
        return node.children

    def _array(self, node: Node) -> str | None:
        """The column that ``x_`` stands for."""
        name = node.text
        if node.form is Form.NAME and name.endswith("_") and name not in self._columns and name[:-1] in self._columns:
            return name[:-1]
        return None

    def _is_static(self, node: Node) -> bool:
        first = node.children[0] if node.form is Form.METHOD else None
        return (
            first is not None and first.form is Form.NAME and first.text in _CLASSES and first.text not in self._columns
        )

    def _make(self, node: Node, values: list[Value]) -> Value:
        match node.form:
            case Form.LITERAL:
                return self._steps.literal(node.value, node.kind or NULL)
            case Form.NAME:
                return self._name(node)
            case Form.UNARY:
                return self._unary(node, values[0])
            case Form.BINARY:
                return self._binary(node, values[0], values[1])
            case Form.CAST:
                return self._cast(node, values[0])
            case Form.CHOICE:
                return self._choice(node, values)
            case Form.IN:
                return self._in(node, values)
            case Form.INDEX:
                array = self._array(node.children[0])
                return self._at(node, values) if array is None else self._position(node, array, values[0])
            case _:
                return self._call(node, values)

    # --- leaves

    def _name(self, node: Node) -> Value:
        name = node.text
        if name in self._columns:
            return self._steps.column(name, kind_of(self._columns[name]))
        if name in ("i", "ii"):
            return self._steps.position(INT if name == "i" else LONG)
        if name in CONSTANTS:
            return self._steps.literal(*CONSTANTS[name])
        if name == "k":
            raise self._text.error(
                node.at, "Row keys ('k') are not available in formulas: use 'ii', the row's position."
            )
        if self._array(node) is not None:
            raise self._text.error(
                node.at, f"'{name}' is a whole column: read one value of it, such as '{name}[ii - 1]'."
            )
        known_names = list(islice(self._columns, _MOST_NAMES))
        if name.endswith("_"):  # maybe the values of a column at positions
            known_names += [f"{column}_" for column in known_names]
        near = name_hint(name) or self._nearest(name, known_names)
        more = len(self._columns) - _SHOWN_NAMES
        shown = ", ".join(islice(self._columns, _SHOWN_NAMES)) + (f", and {more} more" if more > 0 else "")
        known = "" if near else f" Columns: {shown}."
        hint = f" '{name}' is a function: write '{name}(...)'." if name in FUNCTIONS else f"{near}{known}"
        raise self._text.error(node.at, f"There is no column '{name}'.{hint}", UnknownColumnError)

    # --- operators

    def _unary(self, node: Node, value: Value) -> Value:
        operator = node.text
        if operator == "!" and value.kind is NULL:
            value = self._converted(value, BOOLEAN)
        kind = value.kind
        resolved: arithmetic.Resolved | None = None
        if operator == "!" and kind is BOOLEAN:
            resolved = BOOLEAN, comparison.negation
        elif operator == "~" and kind in INTEGERS:
            ones = self._steps.literal(-1, INT)
            return self._binary(Node(Form.BINARY, node.at, "^"), value, ones)
        elif operator == "-":
            resolved = arithmetic.negative(kind)
        elif operator == "+" and kind.is_number:
            kernel = arithmetic.cast(kind, arithmetic.promoted(kind, INT))
            assert kernel is not None
            resolved = arithmetic.promoted(kind, INT), kernel
        if resolved is None:
            raise self._text.error(node.at, f"'{operator}' does not take {_an(kind)}.")
        return self._steps.pure(f"unary {operator}", resolved, (value,))

    def _binary(self, node: Node, left: Value, right: Value) -> Value:
        operator = node.text
        if operator in ("&&", "||"):
            left, right = (self._converted(each, BOOLEAN) if each.kind is NULL else each for each in (left, right))
        resolved = self._resolve(operator, left.kind, right.kind)
        if resolved is None:
            hint = pair_hint(operator, left.kind.name, right.kind.name)
            raise self._text.error(node.at, f"'{operator}' does not take {_an(left.kind)} and {_an(right.kind)}.{hint}")
        # numpy warns of NaN in some casts of floats, and of none that it compares
        is_quiet = resolved[0] is BOOLEAN and (left.kind == right.kind or FLOAT not in (left.kind, right.kind))
        made = self._steps.pure(operator, resolved, (left, right), is_quiet=is_quiet)
        if operator in _COMPARISONS:
            self._steps.comparisons[made.step] = operator
        return made

    def _resolve(self, operator: str, left: Kind, right: Kind) -> arithmetic.Resolved | None:
        if operator in _COMPARISONS:
            return comparison.comparison(operator, left, right)
        if operator == "+" and STRING in (left, right):
            if not (texts.has_text(left) and texts.has_text(right)):
                return None
            return STRING, texts.concatenation((left, right))
        if operator in ("&&", "||"):
            if not (left is BOOLEAN and right is BOOLEAN):
                return None
            return BOOLEAN, comparison.conjunction if operator == "&&" else comparison.disjunction
        if NULL in (left, right):
            return None
        find = arithmetic.arithmetic if operator in "+-*/%" else arithmetic.bits
        return find(operator, left, right)

    def _cast(self, node: Node, value: Value) -> Value:
        target = next(kind for kind in _CASTS if kind.name == node.text)
        if value.kind is NULL:
            return self._steps.literal(None, target)
        kernel = arithmetic.cast(value.kind, target)
        if kernel is None:
            hint = " Use String.valueOf(...)." if target is STRING else ""
            raise self._text.error(node.at, f"{_an(value.kind, True)} cannot be cast to {target}.{hint}")
        return self._steps.pure(f"({target})", (target, kernel), (value,))

    def _choice(self, node: Node, values: list[Value]) -> Value:
        condition, first, second = values
        if condition.kind is not BOOLEAN:
            raise self._text.error(node.at, f"'?' takes a condition, not {_an(condition.kind)}.")
        kind = _unified(first.kind, second.kind)
        if kind is None or kind is ZONE:
            raise self._text.error(
                node.at, f"The two values of '?' do not go together: {_an(first.kind)} and {_an(second.kind)}."
            )
        first, second = self._converted(first, kind), self._converted(second, kind)

        def apply(_run: Run, given: Sequence[Vector]) -> Vector:
            test = given[0]
            assert isinstance(test, Cells)
            return comparison.choice(test, given[1], given[2])

        return self._steps.combine("?", kind, apply, (condition, first, second))

    def _converted(self, value: Value, kind: Kind) -> Value:
        """The value as another kind: an implicit conversion, or a null of the kind."""
        if value.kind == kind:
            return value
        if value.kind is NULL:
            return self._steps.literal(None, kind)
        kernel = arithmetic.convert(value.kind, kind) or arithmetic.cast(value.kind, kind)
        assert kernel is not None
        return self._steps.pure(f"as {kind}", (kind, kernel), (value,))

    # --- membership and positions

    def _in(self, node: Node, values: list[Value]) -> Value:
        value, items = values[0], values[1:]
        ignore_case, negated = "icase" in node.text, "not" in node.text
        if ignore_case and any(each.kind not in (STRING, NULL) for each in values):
            raise self._text.error(node.at, "'icase in' takes strings.")
        kind = value.kind
        for item in items:
            if item.kind is not NULL and comparison.comparison("==", value.kind, item.kind) is None:
                raise self._text.error(node.at, f"{_an(value.kind, True)} is never {_an(item.kind)}.")
            if not are_exact(kind, item.kind):
                kind = comparison.common(kind, item.kind) or kind
        is_known = kind is STRING or kind.is_decimal or kind.dtype is not None
        if is_known and all(item.is_literal for item in items):
            value = self._converted(value, kind)
            wanted = [item.value for item in items]
            kernel = comparison.members(kind, wanted, ignore_case)
            found = self._steps.pure(f"in {wanted!r} {ignore_case}", (BOOLEAN, kernel), (value,))
        else:
            equal = Node(Form.BINARY, node.at, "==")
            if ignore_case:
                lower = Node(Form.METHOD, node.at, "toLowerCase")
                value, items = self._call(lower, [value]), [self._call(lower, [item]) for item in items]
            found = self._binary(equal, value, items[0])
            for item in items[1:]:
                found = self._binary(Node(Form.BINARY, node.at, "||"), found, self._binary(equal, value, item))
        return self._unary(Node(Form.UNARY, node.at, "!"), found) if negated else found

    def _position(self, node: Node, column: str, index: Value) -> Value:
        """``x_[...]``: the column's value at a position, null where there is none."""
        if index.kind not in INTEGERS:
            raise self._text.error(node.at, f"A position is an integer, not {_an(index.kind)}.")
        kind = kind_of(self._columns[column])
        self._steps.positions = True
        if column not in self._steps.arrays:
            self._steps.arrays.append(column)

        def apply(run: Run, given: Sequence[Vector]) -> Vector:
            wanted = given[0]
            assert isinstance(wanted, Cells)
            assert run.lookup is not None
            places = np.broadcast_to(wanted.values, run.rows).astype(np.int64)
            if wanted.valid is not None:
                places = np.where(wanted.valid, places, -1)
            return from_arrow(run.lookup(column, np.maximum(places, -1)), kind)

        return self._steps.combine(f"at {column!r}", kind, apply, (index,))

    def _at(self, node: Node, values: list[Value]) -> Value:
        """``x[...]``: an item of a list."""
        if values[0].kind.item is None:
            raise self._text.error(
                node.at, f"{_an(values[0].kind, True)} has no items: '[' follows a list or a column's name with '_'."
            )
        return self._call(Node(Form.CALL, node.at, "nth"), [values[1], values[0]])

    # --- calls

    def _call(self, node: Node, values: list[Value]) -> Value:
        name = node.text
        static = self._is_static(node) if node.children else False
        if static:
            path = f"{node.children[0].text}.{name}"
            name = name if node.children[0].text in ("Math", "Double", "Float") and path not in FUNCTIONS else path
        is_method = node.form is Form.METHOD and not static
        user = None if node.form is Form.METHOD else self._functions.function_of(name)
        if user is not None:
            return self._user(node, user, values)
        if name == "timeZone" and not is_method:
            return self._zone(node, values)
        table = METHODS if is_method else FUNCTIONS
        builtin = table.get(name)
        if builtin is None:
            names = (*table, *(() if is_method else self._functions.names))
            what = "method" if is_method else "function"
            hint = method_hint(name, name in FUNCTIONS) if is_method else function_hint(name)
            raise self._text.error(node.at, f"There is no {what} '{name}'.{hint or self._nearest(name, names)}")
        return self._builtin(node, builtin, values, is_method)

    def _zone(self, node: Node, values: list[Value]) -> Value:
        """``timeZone(`America/New_York`)``, which is a literal."""
        if len(values) != 1 or values[0].kind is not STRING or not values[0].is_literal:
            raise self._text.error(node.at, "'timeZone' takes a literal String.")
        zone = zone_name(values[0].value)
        if zone is None:
            raise self._text.error(node.at, f"There is no time zone '{values[0].value[:60]}'.")
        return self._steps.literal(zone, ZONE)

    def _builtin(self, node: Node, builtin: Builtin, values: list[Value], is_method: bool) -> Value:
        try:
            match = builtin.match([(value.kind, value.is_literal, value.value) for value in values])
        except ValueError as error:
            raise self._text.error(node.at, f"'{builtin.name}': {error}.") from None
        if match is None:
            given = ", ".join(
                ("a literal " if value.is_literal else "") + value.kind.name for value in values[is_method:]
            )
            if is_method and not builtin.takes_receiver(values[0].kind):
                raise self._text.error(
                    node.at, f"'{builtin.name}' is a method of {builtin.receivers}, not of {_an(values[0].kind)}."
                )
            takes = builtin.shown(values[0].kind if is_method else None)
            receiver = f" of {_an(values[0].kind)}" if is_method else ""
            hint = "" if is_method or not any(value.kind is STRING for value in values) else function_hint(builtin.name)
            if takes.count(ANY.name) > 1:
                hint += f" Where it takes '{ANY.name}' more than once, these have one type."
            if NUMBER.name in takes and any(value.kind.is_decimal for value in values):
                hint += " A BigDecimal is no number there: take '(double)x'."
            raise self._text.error(
                node.at, f"'{builtin.name}'{receiver} does not take ({given}); it takes {takes}.{hint}"
            )
        key = builtin.name if builtin.is_pure else f"{builtin.name} at {node.at}"
        if not builtin.is_pure:
            self._steps.is_pure = False
        return self._steps.combine(("." if is_method else "") + key, match.kind, _applied(match, values), tuple(values))

    def _user(self, node: Node, user: UserFunction, values: list[Value]) -> Value:
        if user not in self._steps.users:
            self._steps.users.append(user)
        kinds = [value.kind for value in values]
        if ZONE in kinds or PERIOD in kinds:
            raise self._text.error(node.at, f"'{user.name}': functions of users take no periods and time zones.")
        try:
            user.prepare(kinds)
        except InvalidRequestError as error:
            text = str(error)
            raise self._text.error(node.at, text if text.endswith(".") else f"{text}.", type(error)) from None

        def apply(run: Run, given: Sequence[Vector]) -> Vector:
            arrays = [to_arrow(vector, kind, run.rows) for vector, kind in zip(given, kinds, strict=True)]
            return from_arrow(user(arrays, run.rows), kind_of(user.returns))

        return self._steps.combine(f"user {user.name}", kind_of(user.returns), apply, tuple(values))

    def _nearest(self, name: str, names: Any) -> str:
        known = list(names)
        near = get_close_matches(name[:100], known, 1) or [each for each in known if each.lower() == name.lower()][:1]
        return f" Did you mean '{near[0]}'?" if near else ""


def _applied(match: Match, values: Sequence[Value]) -> Apply:
    """The call of a built-in function, with converted arguments.

    Parameters that take a literal get its Python value.
    """
    kernel = match.kernel
    parts = [
        (convert, value.value if is_fixed else None, is_fixed)
        for convert, is_fixed, value in zip(match.converters, match.fixed, values, strict=True)
    ]
    takes_run = getattr(kernel, "takes_run", False)

    def apply(run: Run, given: Sequence[Vector]) -> Vector:
        arguments = [
            value if is_fixed else vector if convert is None else convert(vector)
            for (convert, value, is_fixed), vector in zip(parts, given, strict=True)
        ]
        return kernel(run, *arguments) if takes_run else kernel(*arguments)

    return apply


def _unified(first: Kind, second: Kind) -> Kind | None:
    """The common kind of two alternatives, or ``None``."""
    if first == second or second is NULL:
        return first
    if first is NULL:
        return second
    if first.is_number and second.is_number:
        for narrow, wide in ((first, second), (second, first)):
            if arithmetic.convert(narrow, wide) is not None:
                return wide
        return arithmetic.promoted(first, second)
    return None


def _an(kind: Kind, is_first: bool = False) -> str:
    """A kind with its article."""
    article = "An" if kind.name[0] in "aeiouAEIOU" else "A"
    return f"{article if is_first else article.lower()} {kind}"
