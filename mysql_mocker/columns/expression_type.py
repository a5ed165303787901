"""Which type the server gives an expression, from its syntax tree.

As measured on MySQL 9.7.4. An expression that is not known here has no type (None), and its column
is described by its values.
"""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from mysql_mocker.columns import value_type
from mysql_mocker.columns.value_type import (
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    TIME,
    UNSIGNED_INTEGER,
    ValueType,
)
from mysql_mocker.error import MySQLError
from mysql_mocker.sql.value import Value
from mysql_mocker.state.routine import find
from mysql_mocker.state.session import Session
from mysql_mocker.state.variables import canonical
from protocol.constants import FieldType

ColumnType = Callable[[exp.Column], ValueType | None]
QueryType = Callable[[exp.Expr], ValueType | None]

_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%",
}  # fmt: skip
_INTEGERS: Final = (
    exp.Boolean | exp.Predicate | exp.Connector | exp.Not | exp.In | exp.Between | exp.Exists
    | exp.Count | exp.Length | exp.StrPosition | exp.Sign
)  # fmt: skip
_BITS: Final = (
    exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor | exp.BitwiseNot | exp.BitwiseLeftShift
    | exp.BitwiseRightShift
)  # fmt: skip
_TEXTS: Final = (
    exp.Upper | exp.Lower | exp.Trim | exp.Reverse | exp.Replace | exp.Concat | exp.ConcatWs
    | exp.Left | exp.Right | exp.Substring | exp.Repeat | exp.Hex | exp.SHA2 | exp.Uuid
    | exp.CurrentSchema | exp.CurrentUser | exp.SessionUser | exp.CurrentVersion
)  # fmt: skip
_DOUBLES: Final = exp.Pow | exp.Sqrt | exp.Exp | exp.Ln | exp.Log | exp.Rand
_OF_OPERAND: Final = (
    exp.Sum | exp.Avg | exp.Max | exp.Min | exp.Nullif | exp.Abs | exp.Floor | exp.Ceil
)  # fmt: skip
_FUNCTIONS: Final[dict[str, ValueType]] = {
    **dict.fromkeys(("USER", "SESSION_USER", "SYSTEM_USER", "SCHEMA", "GTID_SUBTRACT"), TEXT),
    **dict.fromkeys(
        ("ROW_COUNT", "FOUND_ROWS", "SLEEP", "GET_LOCK", "RELEASE_LOCK", "IS_FREE_LOCK",
         "WAIT_FOR_EXECUTED_GTID_SET", "GTID_SUBSET", "UNIX_TIMESTAMP"),
        INTEGER,
    ),
    **dict.fromkeys(
        ("CONNECTION_ID", "LAST_INSERT_ID", "IS_USED_LOCK", "RELEASE_ALL_LOCKS"),
        UNSIGNED_INTEGER,
    ),
}  # fmt: skip
_NOW: Final = frozenset(("NOW", "SYSDATE", "LOCALTIMESTAMP", "LOCALTIME", "UTC_TIMESTAMP"))
_CASTS: Final[dict[str, ValueType]] = {
    **dict.fromkeys(("CHAR", "VARCHAR", "TEXT"), TEXT),
    "BIGINT": INTEGER, "UBIGINT": UNSIGNED_INTEGER, "DOUBLE": DOUBLE, "DATE": DATE,
    "DATETIME": value_type.datetime(),
}  # fmt: skip


class ExpressionTypes:
    """Finds the types of one statement's expressions.

    Args:
        session: knows variables and stored functions.
        values: of the statement's markers, see `Statement.values`.
        column: the type of a table's column.
        query: the type of a subquery's only column.
    """

    def __init__(
        self,
        session: Session,
        values: dict[str, Value],
        column: ColumnType,
        query: QueryType,
    ) -> None:
        self._session = session
        self._values = values
        self._column = column
        self._query = query

    def find(self, node: exp.Expr) -> ValueType | None:  # noqa: C901 one case per kind
        """The type of an expression; None if it is not known."""
        if isinstance(node, exp.Paren | exp.Alias | exp.Collate):
            return self.find(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Subquery):
            return self._query(node)
        if isinstance(node, exp.Literal):
            return self._literal(node)
        if isinstance(node, exp.Null):
            return NULL
        if isinstance(node, _INTEGERS):
            return INTEGER
        if isinstance(node, _BITS):
            return UNSIGNED_INTEGER
        if isinstance(node, _TEXTS | exp.Placeholder):
            return TEXT
        if isinstance(node, _DOUBLES):
            return DOUBLE
        if isinstance(node, exp.HexString | exp.BitString):
            return BYTES
        return self._operator(node) or self._function(node)

    def _common(self, nodes: list[exp.Expr]) -> ValueType | None:
        found = [self.find(node) for node in nodes]
        known = [known_type for known_type in found if known_type is not None]
        return value_type.common(known) if len(known) == len(found) else None

    def _literal(self, node: exp.Literal) -> ValueType:
        if node.is_string:
            return value_type.of_value(self._values.get(node.name, node.name))
        if "e" in node.name.lower():
            return DOUBLE
        _, point, fraction = node.name.partition(".")
        return value_type.decimal(len(fraction)) if point else INTEGER

    def _operator(self, node: exp.Expr) -> ValueType | None:
        sign = _ARITHMETIC.get(type(node))
        if sign is not None:
            left = self.find(node.this)
            if isinstance(node.expression, exp.Interval):
                return left if left and left.moment else None
            right = self.find(node.expression)
            return value_type.arithmetic(sign, left, right) if left and right else None
        if isinstance(node, exp.Neg):
            operand = self.find(node.this)
            if operand is None or not operand.number:
                return None
            return INTEGER if operand.integer else operand
        if isinstance(node, exp.SessionParameter):
            try:
                name = canonical(node.name)
            except MySQLError:
                return None
            return value_type.of_variable(self._session.value_of(name, shared=False))
        if isinstance(node, exp.Parameter):
            return value_type.of_value(self._session.typed_variable(node.name.lower()))
        return None

    def _function(self, node: exp.Expr) -> ValueType | None:
        if isinstance(node, exp.Anonymous):
            return self._named(node)
        if isinstance(node, exp.CurrentTimestamp | exp.Localtimestamp | exp.UtcTimestamp):
            return value_type.datetime(_digits(node.this))
        if isinstance(node, exp.CurrentDate):
            return DATE
        if isinstance(node, exp.CurrentTime):
            return TIME
        if isinstance(node, exp.Case):
            results = [branch.args["true"] for branch in node.args["ifs"]]
            return self._common([*results, node.args.get("default") or exp.Null()])
        if isinstance(node, exp.If):
            return self._common([node.args["true"], node.args.get("false") or exp.Null()])
        if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
            return self._common([node.this, *node.expressions])
        if isinstance(node, exp.Cast):
            return _cast(node)
        if isinstance(node, _OF_OPERAND):
            operand = self.find(node.this)
            return None if operand is None else _of_operand(node, operand)
        return None

    def _named(self, node: exp.Anonymous) -> ValueType | None:
        name = node.name.upper()
        if name in _NOW:
            return value_type.datetime(_digits(node.expressions[0] if node.expressions else None))
        known = _FUNCTIONS.get(name)
        if known is not None or find(self._session, "FUNCTION", node.name) is None:
            return known
        # The type in RETURNS is not kept: most functions return a number.
        return ValueType(FieldType.MYSQL_TYPE_LONG, 11)


def _number(node: object) -> int:
    text = node.name if isinstance(node, exp.Literal) else ""
    return int(text) if text.isdigit() else 0


def _digits(node: object) -> int:
    return min(6, _number(node))


def _of_operand(node: exp.Expr, operand: ValueType) -> ValueType:
    """The type of a function of one value, which is that of the value itself or another number."""
    if isinstance(node, exp.Max | exp.Min | exp.Nullif):
        return operand
    if (isinstance(node, exp.Abs) and operand.integer) or (
        isinstance(node, exp.Floor | exp.Ceil) and operand.exact
    ):
        return INTEGER
    if not operand.exact:
        return DOUBLE
    return value_type.decimal(operand.decimals + 4 * isinstance(node, exp.Avg))


def _cast(node: exp.Cast) -> ValueType | None:
    target = node.to
    if not isinstance(target, exp.DataType):
        return None
    name = str(target.this.value).upper()
    if name == "DECIMAL":
        sizes = [_number(size.this) for size in target.expressions]
        return value_type.decimal(sizes[1] if len(sizes) > 1 else 0)
    return _CASTS.get(name)
