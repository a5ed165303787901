"""The types of a prepared statement's parameters: those of the expressions beside them."""

from dataclasses import replace
from typing import Final, Protocol

from sqlglot import exp

from mysql_mocker.columns import value_type
from mysql_mocker.columns.value_type import ValueType
from protocol.constants import FieldType
from protocol.resultset import ColumnDefinition41

TEXT: Final = value_type.text(65532)
_ARITHMETIC: Final = exp.Add | exp.Sub | exp.Mul | exp.Div | exp.IntDiv | exp.Mod | exp.Neg
_CONDITIONS: Final = exp.Where | exp.Having | exp.And | exp.Or | exp.Not | exp.If
_LONGEST: Final = 2**32 - 1


class Types(Protocol):
    """Knows the types of the expressions beside parameters."""

    def find(self, node: exp.Expr) -> ValueType | None:
        """The type of an expression; None if it is not known."""
        ...


def widened(kind: ValueType) -> ValueType:
    """The type of a parameter that is compared with, or assigned to, a value of this type."""
    if kind.integer:
        return value_type.integer(21, nullable=True, unsigned=kind.unsigned)
    if kind.decimal:
        return value_type.decimal(65, 30, nullable=True)
    if kind.double:
        return value_type.double(nullable=True)
    if kind.type in (FieldType.MYSQL_TYPE_DATETIME, FieldType.MYSQL_TYPE_TIMESTAMP):
        return value_type.datetime(6, nullable=True)
    if kind.moment:
        return replace(kind, nullable=True, declared=False)
    if kind.type == FieldType.MYSQL_TYPE_BLOB:
        long = FieldType.MYSQL_TYPE_LONG_BLOB
        return ValueType(long, _LONGEST, nullable=True, decimals=31, text=kind.text)
    return TEXT


def is_parameter(node: exp.Expr) -> bool:
    """Whether it is a ``?``, or stands for the value that was bound to one."""
    return isinstance(node, exp.Placeholder) or (
        isinstance(node, exp.Literal) and node.name.startswith("\x01parameter")
    )


def _has_parameter(part: exp.Expr) -> bool:
    return any(is_parameter(node) for node in part.walk())


def parameter_type(node: exp.Expr, types: Types) -> ValueType:
    """The type of one parameter."""
    parent: exp.Expr | None = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Limit | exp.Offset):
        return value_type.integer(21, nullable=True, unsigned=True)
    if isinstance(parent, exp.Predicate | exp.In | exp.Between | exp.Coalesce | exp.Nullif):
        others = [part for part in parent.iter_expressions() if not _has_parameter(part)]
        known = [types.find(part) for part in others]
        return next((widened(kind) for kind in known if kind is not None), TEXT)
    if isinstance(parent, _ARITHMETIC):
        sides = [part for part in parent.iter_expressions() if part is not node]
        kind = next((types.find(side) for side in sides), None)
        number = kind if kind is not None and kind.number else value_type.integer()
        return widened(number)
    if isinstance(parent, _CONDITIONS) and node.arg_key in ("this", "expression"):
        return value_type.integer(21, nullable=True)
    return TEXT


def definitions(
    tree: exp.Expr, types: Types, inserted: list[ColumnDefinition41]
) -> list[ColumnDefinition41]:
    """The definitions of a statement's parameters, in their order.

    Args:
        tree: a SELECT, INSERT, REPLACE, UPDATE or DELETE, with a value bound to each of them.
        types: the types of expressions on its tables.
        inserted: the columns that VALUES has values for.
    """
    found = []
    places = [node for node in tree.walk() if isinstance(node, exp.Literal) and is_parameter(node)]
    for node in sorted(places, key=lambda place: int(place.name.strip("\x01").split()[1])):
        kind = parameter_type(node, types)
        row = node.parent
        if isinstance(row, exp.Tuple) and isinstance(row.parent, exp.Values):
            place = next(i for i, part in enumerate(row.expressions) if part is node)
            if place < len(inserted):
                column = inserted[place]
                kind = widened(
                    ValueType(
                        column.type, 0, unsigned=bool(column.flags & value_type.UNSIGNED),
                        text=column.character_set != 63,
                    )
                )  # fmt: skip
        alias = node.parent
        name = alias.alias if isinstance(alias, exp.Alias) else "?"
        found.append(kind.definition(name))
    return found
