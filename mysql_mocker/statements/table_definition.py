"""CREATE TABLE: from MySQL's definition to SQLite's table and indexes."""

import re
from dataclasses import dataclass, field

from sqlglot import exp

from mysql_mocker.error import unsupported
from mysql_mocker.sql import translation
from mysql_mocker.sql.names import quoted, stored_name

_TEXT_TYPES = ("CHAR", "VARCHAR", "TEXT")
_NO_INDEX = (exp.CommentColumnConstraint, exp.CharacterSetColumnConstraint,
             exp.CollateColumnConstraint, exp.OnUpdateColumnConstraint)  # fmt: skip


@dataclass(slots=True)
class Index:
    """A secondary index.

    Attributes:
        name: empty lets the server choose.
    """

    name: str
    columns: list[str]
    unique: bool

    def create(self, stored: str) -> str:
        """SQLite's CREATE INDEX; in MySQL, index names are unique only within their table."""
        name = quoted(f"{stored}.{self.name or self.columns[0]}")
        columns = ", ".join(quoted(column) for column in self.columns)
        return f"CREATE {'UNIQUE ' * self.unique}INDEX {name} ON {quoted(stored)} ({columns})"


def expression(node: exp.Expr) -> str:
    """An expression inside a definition, in SQLite's SQL."""
    return translation.sqlite_sql(translation.functions(exp.Paren(this=node.copy())))


def type_name(column: exp.ColumnDef) -> str:
    """The type as MySQL writes it, changed where SQLite would misunderstand the words."""
    kind = column.args.get("kind")
    if not isinstance(kind, exp.DataType):
        raise unsupported(f"a column without a type: {column.name}")
    name = kind.sql("mysql").upper().replace(", ", ",")
    if name.startswith(("ENUM", "SET(")):
        return "VARCHAR(255)"
    if name.startswith(("BINARY", "VARBINARY")):
        return name.replace("BINARY", "BINARY BLOB", 1)
    return name


def key_columns(nodes: list[exp.Expr]) -> list[str]:
    """Column names of an index; prefix lengths and directions are dropped."""
    found = []
    for node in nodes:
        part = node.this if isinstance(node, exp.Ordered) else node
        if isinstance(part, exp.ColumnPrefix):
            part = part.this
        if isinstance(part, exp.Anonymous):
            found.append(part.name)  # `a(10)`, read as a call
        elif isinstance(part, exp.Identifier | exp.Column):
            found.append(part.name)
        else:
            raise unsupported("functional key parts")
    return found


def index(node: exp.Expr) -> Index | None:
    """The index that a part of a table's definition describes, None if it is no index."""
    if isinstance(node, exp.UniqueColumnConstraint) and isinstance(node.this, exp.Schema):
        named = node.this.this
        name = named.name if isinstance(named, exp.Identifier) else ""
        return Index(name, key_columns(node.this.expressions), unique=True)
    if isinstance(node, exp.IndexColumnConstraint):
        return Index(node.name, key_columns(node.expressions), unique=False)
    return None


def added_column(column: exp.ColumnDef) -> str:
    """The column of ALTER TABLE … ADD COLUMN."""
    words = [quoted(column.name), type_name(column)]
    default = "''" if any(text in words[1] for text in _TEXT_TYPES) else "0"
    for constraint in column.constraints:
        if isinstance(constraint.kind, exp.DefaultColumnConstraint):
            default = expression(constraint.kind.this)
            words += ["DEFAULT", default]
    if _has(column, exp.NotNullColumnConstraint):
        # Rows that are there already get MySQL's implicit default.
        words += ["NOT NULL"] if "DEFAULT" in words else ["NOT NULL DEFAULT", default]
    return " ".join(words)


@dataclass(slots=True)
class TableDefinition:
    """A table in the making.

    Args:
        stored: its stored name.
        schema: the one that names without a schema belong to.
    """

    stored: str
    schema: str
    temporary: bool = False
    parts: list[str] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)

    def add(self, nodes: list[exp.Expr]) -> None:
        """Takes the items in the parentheses of CREATE TABLE.

        Raises:
            MySQLError: 1235.
        """
        nodes = [inner for node in nodes for inner in _unnamed(node)]
        primary = [
            name
            for node in nodes
            if isinstance(node, exp.PrimaryKey)
            for name in key_columns(node.expressions)
        ]
        columns = [node for node in nodes if isinstance(node, exp.ColumnDef)]
        primary += [
            column.name for column in columns if _has(column, exp.PrimaryKeyColumnConstraint)
        ]
        for column in columns:
            alone = primary[0] if len(primary) == 1 else ""
            names = [name.lower() for name in primary]
            self.parts.append(self._column(column, alone, primary=column.name.lower() in names))
        numbered = any(part.endswith("AUTOINCREMENT") for part in self.parts)
        if primary and not numbered:
            self.parts.append(f"PRIMARY KEY ({', '.join(map(quoted, primary))})")
        for node in nodes:
            self._constraint(node)

    def _column(self, column: exp.ColumnDef, alone: str, *, primary: bool) -> str:
        name = quoted(column.name)
        if _has(column, exp.AutoIncrementColumnConstraint):
            if column.name.lower() != alone.lower():
                raise unsupported("AUTO_INCREMENT in a key of more than one column")
            declared = re.sub(r"[^A-Z ]", "", re.sub(r"\([^)]*\)", "", type_name(column)))
            return f"{name} INTEGER /*{declared}*/ PRIMARY KEY AUTOINCREMENT"
        words = [name, type_name(column), *["NOT NULL"] * primary]
        for constraint in column.constraints:
            words += self._column_constraint(column, constraint.kind)
        if any(text in words[1] for text in _TEXT_TYPES) and "BLOB" not in words[1]:
            words.append("COLLATE utf8mb4_0900_ai_ci")
        return " ".join(words)

    def _column_constraint(self, column: exp.ColumnDef, kind: exp.Expr) -> list[str]:
        if isinstance(kind, exp.NotNullColumnConstraint):
            return [] if kind.args.get("allow_null") else ["NOT NULL"]
        if isinstance(kind, exp.DefaultColumnConstraint):
            return ["DEFAULT", expression(kind.this)]
        if isinstance(kind, exp.UniqueColumnConstraint):
            self.indexes.append(Index(column.name, [column.name], unique=True))
            return []
        if isinstance(kind, exp.ComputedColumnConstraint):
            return ["GENERATED ALWAYS AS", expression(kind.this)]
        if isinstance(kind, exp.CheckColumnConstraint):
            return ["CHECK", expression(kind.this)]
        if isinstance(kind, (*_NO_INDEX, exp.PrimaryKeyColumnConstraint)):
            return []
        raise unsupported(kind.sql("mysql"))

    def _constraint(self, node: exp.Expr) -> None:
        found = index(node)
        if found is not None:
            self.indexes.append(found)
        elif isinstance(node, exp.CheckColumnConstraint):
            self.parts.append(f"CHECK {expression(node.this)}")
        elif isinstance(node, exp.ForeignKey):
            self.parts.append(self._foreign_key(node))
        elif not isinstance(node, exp.ColumnDef | exp.PrimaryKey):
            raise unsupported(node.sql("mysql"))

    def _foreign_key(self, node: exp.ForeignKey) -> str:
        reference = node.args["reference"]
        parent = reference.this.this
        stored = quoted(stored_name(parent.db or self.schema, parent.name))
        own = ", ".join(quoted(name.name) for name in node.expressions)
        theirs = ", ".join(quoted(name.name) for name in reference.this.expressions)
        options = " ".join(str(option) for option in reference.args.get("options") or [])
        return f"FOREIGN KEY ({own}) REFERENCES {stored} ({theirs}) {options}"

    def create(self) -> list[str]:
        """The statements that make the table."""
        kind = "TEMP TABLE" if self.temporary else "TABLE"
        body = ", ".join(self.parts)
        first = f"CREATE {kind} {quoted(self.stored)} ({body})"
        return [first, *(index.create(self.stored) for index in self.indexes)]


def _unnamed(node: exp.Expr) -> list[exp.Expr]:
    """What follows ``CONSTRAINT name``."""
    return list(node.expressions) if isinstance(node, exp.Constraint) else [node]


def _has(column: exp.ColumnDef, kind: type[exp.Expr]) -> bool:
    return any(isinstance(constraint.kind, kind) for constraint in column.constraints)
