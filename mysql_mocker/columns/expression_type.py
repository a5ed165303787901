"""Which type the server gives an expression, from its syntax tree.

As measured on MySQL 9.7.4. An expression that is not known here has no type (None), and its column
is described by its values.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sqlglot import exp

from mysql_mocker.columns import value_type
from mysql_mocker.columns.value_type import ValueType
from mysql_mocker.error import MySQLError
from mysql_mocker.sql.value import Value
from mysql_mocker.state.routine import find
from mysql_mocker.state.session import Session
from mysql_mocker.state.variables import VERSION, canonical
from protocol.constants import FieldType

ColumnType = Callable[[exp.Column], ValueType | None]
QueryType = Callable[[exp.Expr], ValueType | None]

_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%",
}  # fmt: skip
_NEVER_NULL: Final = exp.Is | exp.NullSafeEQ | exp.Exists
_BITS: Final = (
    exp.BitwiseAnd | exp.BitwiseOr | exp.BitwiseXor | exp.BitwiseNot | exp.BitwiseLeftShift
    | exp.BitwiseRightShift
)  # fmt: skip
PARAMETER: Final = value_type.text(65532)
"""The type of a parameter without a value: any, as a text."""

_SAME_TEXT: Final = exp.Upper | exp.Lower | exp.Trim | exp.Reverse | exp.Replace
_MATHEMATICS: Final = exp.Pow | exp.Sqrt | exp.Exp | exp.Ln | exp.Log
_FUNCTIONS: Final[dict[str, ValueType]] = {
    "USER": value_type.text(1152),
    "SESSION_USER": value_type.text(1152),
    "SYSTEM_USER": value_type.text(1152),
    "SCHEMA": value_type.text(256),
    "CONNECTION_ID": value_type.integer(unsigned=True),
    "LAST_INSERT_ID": value_type.integer(unsigned=True),
    "ROW_COUNT": value_type.integer(),
    "FOUND_ROWS": value_type.integer(),
    "SLEEP": value_type.integer(),
    "GET_LOCK": value_type.truth(nullable=True),
    "RELEASE_LOCK": value_type.truth(nullable=True),
    "IS_FREE_LOCK": value_type.truth(nullable=True),
    "IS_USED_LOCK": value_type.integer(nullable=True, unsigned=True),
    "RELEASE_ALL_LOCKS": value_type.integer(unsigned=True),
    "WAIT_FOR_EXECUTED_GTID_SET": value_type.integer(nullable=True),
    "GTID_SUBSET": value_type.integer(),
    "GTID_SUBTRACT": value_type.text(1 << 26),
    "UNIX_TIMESTAMP": value_type.integer(),
    "CRC32": value_type.integer(10, nullable=True, unsigned=True),
}
_NODES: Final[dict[type[exp.Expr], ValueType]] = {
    exp.Null: value_type.NULL,
    exp.Boolean: value_type.truth(),
    exp.CurrentSchema: value_type.text(256),
    exp.CurrentUser: value_type.text(1152),
    exp.SessionUser: value_type.text(1152),
    exp.CurrentVersion: value_type.characters(len(VERSION), nullable=False),
    exp.CurrentDate: value_type.date(),
    exp.CurrentTime: value_type.time(),
    exp.Count: value_type.integer(),
    exp.Rand: value_type.double(),
    exp.Uuid: value_type.text(144),
}
_NOW: Final = frozenset(("NOW", "SYSDATE", "LOCALTIMESTAMP", "LOCALTIME", "UTC_TIMESTAMP"))
_CASTS: Final[dict[str, Callable[[bool], ValueType]]] = {
    "BIGINT": lambda nullable: value_type.integer(nullable=nullable),
    "UBIGINT": lambda nullable: value_type.integer(nullable=nullable, unsigned=True),
    "DATE": lambda nullable: value_type.date(nullable=nullable),
    "DATETIME": lambda nullable: value_type.datetime(nullable=nullable),
    "DOUBLE": lambda nullable: value_type.double(22, nullable=nullable),
}


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

    def find(self, node: exp.Expr) -> ValueType | None:
        """The type of an expression; None if it is not known."""
        known = _NODES.get(type(node))
        if known is not None:
            return known
        if isinstance(node, exp.Paren | exp.Alias | exp.Collate):
            return self.find(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Subquery):
            return self._query(node)
        if isinstance(node, exp.Literal):
            return self._literal(node)
        if isinstance(node, exp.Placeholder):
            return PARAMETER
        return self._operator(node) or self._function(node)

    def _all(self, nodes: list[exp.Expr]) -> list[ValueType] | None:
        found = [self.find(node) for node in nodes]
        known = [value_type for value_type in found if value_type is not None]
        return known if len(known) == len(found) else None

    def _operands(self, node: exp.Expr) -> list[ValueType] | None:
        return self._all([part for part in node.iter_expressions() if isinstance(part, exp.Expr)])

    def _literal(self, node: exp.Literal) -> ValueType:
        value = self._values.get(node.name, node.name) if node.is_string else node.name
        if node.is_string and (not isinstance(value, str) or node.name.startswith("\x01parameter")):
            return of_value(value)
        if node.is_string:
            return value_type.characters(len(str(value)), nullable=False)
        text = node.name.lower()
        if "e" in text:
            return value_type.double(len(text))
        whole, point, fraction = text.partition(".")
        if point:
            digits = len(whole.lstrip("0")) + len(fraction)
            return value_type.decimal(max(digits, len(fraction) + 1), len(fraction))
        return value_type.integer(len(text) + 1)

    def _operator(self, node: exp.Expr) -> ValueType | None:
        sign = _ARITHMETIC.get(type(node))
        if sign is not None:
            return self._arithmetic(node, sign)
        if isinstance(node, exp.Neg):
            return self._negative(node)
        if isinstance(node, _NEVER_NULL):
            return value_type.truth()
        if isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.In | exp.Between):
            parts = self._operands(node)
            return value_type.truth(nullable=parts is None or any(part.nullable for part in parts))
        if isinstance(node, _BITS):
            parts = self._operands(node)
            nullable = parts is None or any(part.nullable for part in parts)
            return value_type.integer(nullable=nullable, unsigned=True)
        if isinstance(node, exp.SessionParameter):
            return self._system_variable(node)
        if isinstance(node, exp.Parameter):
            variables = self._session.storage.surroundings.user_variables
            return value_type.of_user_variable(variables, node.name.lower())
        if isinstance(node, exp.HexString | exp.BitString):
            bits = isinstance(node, exp.BitString)
            size = (len(node.name) + (7 if bits else 1)) // (8 if bits else 2)
            return ValueType(FieldType.MYSQL_TYPE_VAR_STRING, size, unsigned=not bits)
        return None

    def _arithmetic(self, node: exp.Expr, sign: str) -> ValueType | None:
        if isinstance(node.expression, exp.Interval):
            base = self.find(node.this)
            return replace(base, nullable=True, declared=False) if base and base.moment else None
        parts = self._all([node.this, node.expression])
        return None if parts is None else value_type.arithmetic(sign, parts[0], parts[1])

    def _negative(self, node: exp.Neg) -> ValueType | None:
        operand = self.find(node.this)
        if operand is None or isinstance(node.this, exp.Literal):
            return operand
        if operand.integer:
            return value_type.integer(operand.precision + 1, nullable=operand.nullable)
        return replace(operand, declared=False) if operand.number else None

    def _system_variable(self, node: exp.SessionParameter) -> ValueType | None:
        try:
            name = canonical(node.name)
        except MySQLError:
            return None
        return value_type.of_variable(self._session.value_of(name, shared=False))

    # Functions.

    def _function(self, node: exp.Expr) -> ValueType | None:  # noqa: C901 one case per function
        if isinstance(node, exp.Anonymous):
            return self._named(node)
        if isinstance(node, exp.CurrentTimestamp | exp.Localtimestamp | exp.UtcTimestamp):
            return value_type.datetime(_digits(node.this))
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.If):
            parts = self._all([node.args["true"], node.args.get("false") or exp.Null()])
            if parts is None:
                return None
            return value_type.common(parts, nullable=any(part.nullable for part in parts))
        operand = self.find(node.this) if isinstance(node, exp.Cast) else None
        parts = self._operands(node) if operand is None else [operand]
        if not parts:
            return None
        first, nullable = parts[0], any(part.nullable for part in parts)
        if isinstance(node, exp.Coalesce):
            return value_type.common(parts, nullable=all(part.nullable for part in parts))
        if isinstance(node, exp.Greatest | exp.Least):
            return value_type.common(parts, nullable=nullable)
        if isinstance(node, exp.Nullif):
            declared = replace(first, nullable=True, declared=False)
            return value_type.text(first.as_text) if first.text else declared
        if isinstance(node, exp.Sum | exp.Avg | exp.Max | exp.Min):
            return _aggregate(node, first)
        if isinstance(node, exp.Length | exp.StrPosition):
            return value_type.integer(11, nullable=nullable)
        return self._text_function(node, parts) or _numeric_function(node, first, nullable)

    def _text_function(self, node: exp.Expr, parts: list[ValueType]) -> ValueType | None:
        found = self._text_result(node, parts)
        if found is None or self._is_strict():
            return found
        # Only in strict mode does the server allow for a NULL, in case text is not well-formed.
        return found.with_null(any(part.nullable for part in parts))

    def _is_strict(self) -> bool:
        return "STRICT_" in str(self._session.variables["sql_mode"])

    def _text_result(self, node: exp.Expr, parts: list[ValueType]) -> ValueType | None:
        first = parts[0]
        if isinstance(node, _SAME_TEXT):
            return value_type.text(first.as_text)
        if isinstance(node, exp.Concat):
            return value_type.text(sum(part.as_text for part in parts))
        if isinstance(node, exp.ConcatWs):
            separators = parts[0].as_text * (len(parts) - 2)
            return value_type.text(sum(part.as_text for part in parts[1:]) + separators)
        if isinstance(node, exp.Left | exp.Right):
            return value_type.text(min(first.as_text, 4 * _number(node.expression)))
        if isinstance(node, exp.Substring):
            left = max(0, first.as_text - 4 * (_number(node.args.get("start")) - 1))
            length = node.args.get("length")
            return value_type.text(min(left, 4 * _number(length)) if length else left)
        if isinstance(node, exp.Repeat):
            return value_type.text(first.as_text * _number(node.args["times"]))
        if isinstance(node, exp.Hex):
            size = 16 if first.number else 2 * first.length
            of_blob = first.type == FieldType.MYSQL_TYPE_BLOB
            return value_type.text(size * (16 if of_blob else 4))
        if isinstance(node, exp.SHA2):
            return value_type.characters(int(_number(node.args.get("length")) or 256) // 4)
        return None

    def _named(self, node: exp.Anonymous) -> ValueType | None:
        name = node.name.upper()
        if name in _NOW:
            return value_type.datetime(_digits(node.expressions[0] if node.expressions else None))
        known = _FUNCTIONS.get(name)
        if known is not None or find(self._session, "FUNCTION", node.name) is None:
            return known
        # The type in RETURNS is not kept: most functions return a number.
        return ValueType(FieldType.MYSQL_TYPE_LONG, 11, nullable=True)

    def _case(self, node: exp.Case) -> ValueType | None:
        results = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        parts = self._all([*results, default or exp.Null()])
        if parts is None:
            return None
        return value_type.common(parts, nullable=any(part.nullable for part in parts))


def of_value(value: Value) -> ValueType:
    """The type of a value that a client bound to a parameter."""
    if value is None:
        return value_type.NULL
    if isinstance(value, int):
        return value_type.integer(21, nullable=True)
    if isinstance(value, float):
        return value_type.double()
    if isinstance(value, bytes):
        return ValueType(FieldType.MYSQL_TYPE_VAR_STRING, len(value), decimals=31)
    return PARAMETER


def _number(node: exp.Expr | None) -> int:
    text = node.name if isinstance(node, exp.Literal) else ""
    return int(text) if text.isdigit() else 0


def _digits(node: object) -> int:
    return min(6, _number(node if isinstance(node, exp.Expr) else None))


def _aggregate(node: exp.Expr, operand: ValueType) -> ValueType:
    if isinstance(node, exp.Max | exp.Min):
        if operand.text:
            size = operand.as_text
            kind = operand.type if operand.type == FieldType.MYSQL_TYPE_BLOB else None
            found = value_type.text(size)
            return found if kind is None else replace(found, type=kind)
        return replace(operand, nullable=True, declared=False)
    if not (operand.integer or operand.decimal):
        return value_type.double(nullable=True)
    if isinstance(node, exp.Sum):
        return value_type.decimal(operand.precision + 22, operand.decimals, nullable=True)
    return value_type.decimal(operand.precision + 4, operand.decimals + 4, nullable=True)


def _numeric_function(node: exp.Expr, first: ValueType, nullable: bool) -> ValueType | None:
    if isinstance(node, _MATHEMATICS):
        return value_type.double(nullable=True)
    if isinstance(node, exp.Abs):
        if first.integer:
            return value_type.integer(first.precision + 1, nullable=nullable)
        if first.decimal:
            return value_type.decimal(first.precision, first.decimals, nullable=nullable)
        return value_type.double(nullable=nullable)
    if isinstance(node, exp.Sign):
        return value_type.integer(nullable=nullable)
    if isinstance(node, exp.Floor | exp.Ceil):
        exact = first.integer or first.decimal
        return (
            value_type.integer(nullable=nullable) if exact else value_type.double(nullable=nullable)
        )
    if isinstance(node, exp.Cast):
        return _cast(node, first, nullable)
    return None


def _cast(node: exp.Cast, first: ValueType, nullable: bool) -> ValueType | None:
    target = node.to
    if not isinstance(target, exp.DataType):
        return None
    name = str(target.this.value).upper()
    sizes = [_number(size.this) for size in target.expressions]
    if name in ("CHAR", "VARCHAR", "TEXT"):
        return value_type.text(4 * sizes[0] if sizes else first.as_text)
    if name == "DECIMAL":
        precision, scale = (*sizes, 0, 0)[:2]
        return value_type.decimal(precision or 10, scale, nullable=nullable)
    make = _CASTS.get(name)
    from_text = first.text and name not in ("BIGINT", "UBIGINT")
    return None if make is None else make(nullable or from_text)
