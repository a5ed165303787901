"""Queries with and without tables: asked of a real server, and of `routing.sql.table_references`.

There are tables `t` (a, b) and `c` (a).
"""

_JSON = "JSON_TABLE('[1, 2]', '$[*]' COLUMNS (a INT PATH '$'))"


def _filled(*texts: str) -> tuple[str, ...]:
    return tuple(text.replace("<json>", _JSON) for text in texts)


WITHOUT_TABLE = _filled(
    "SELECT 1",
    "SELECT 1 FROM DUAL",
    "SELECT EXTRACT(YEAR FROM NOW()), TRIM(LEADING 'x' FROM 'xy'), SUBSTRING('abc' FROM 2 FOR 1)",
    "SELECT TRIM( 'x' FROM (SELECT 'xy') )",
    "SELECT 'FROM t', 1 AS `FROM`, 2 AS `TABLE`",
    "SELECT 1 -- FROM t",
    "SELECT * FROM <json> AS j",
    "SELECT * FROM json_table (_utf8mb4'[1]', '$' COLUMNS (a FOR ORDINALITY)) j",
    "select a from <json> j where a > 1 order by a, 1 limit 1",
    "SELECT * FROM (<json> AS j JOIN <json> AS k)",
    "SELECT * FROM <json> AS j, <json> AS k",
    "SELECT * FROM <json> AS j JOIN <json> AS k USING (a)",
    "SELECT * FROM <json> AS j LEFT JOIN <json> AS k ON (j.a, 1) = (k.a, 1)",
    "SELECT STRAIGHT_JOIN * FROM <json> AS j STRAIGHT_JOIN <json> AS k",
    "SELECT * FROM (SELECT 1) AS d",
    "SELECT * FROM(SELECT 1, 2)AS d (x, y)",
    "SELECT * FROM ((SELECT 1)) AS d, LATERAL (SELECT 2) AS e",
    "SELECT * FROM (VALUES ROW(1, 2), ROW(3, 4)) AS v (x, y) WHERE x IN (1, 3)",
    "VALUES ROW(1), ROW(2)",
    "VALUES ROW((SELECT 1))",
    "(SELECT 1) UNION (SELECT 2 FROM DUAL) ORDER BY 1",
    "SELECT EXISTS(SELECT 1 FROM (SELECT 1) AS d)",
    "WITH c AS (SELECT 1 AS a) SELECT * FROM c",
    "WITH c AS (SELECT 1 AS a) SELECT * FROM c AS d JOIN c AS e",
    "WITH c (a, b) AS (SELECT 1, 2), d AS (SELECT a FROM c) SELECT * FROM c, d",
    "WITH `c` AS (SELECT 1 AS a) SELECT * FROM c UNION SELECT * FROM `c`",
    "WITH c AS (SELECT 1 AS a) TABLE c",
    "WITH c AS (VALUES ROW(1)) SELECT (SELECT COUNT(*) FROM c) AS n",
    "WITH RECURSIVE c AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM c WHERE a < 3) SELECT * FROM c",
    "WITH RECURSIVE c(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM c WHERE a < 3), d AS"
    " (SELECT 1 FROM c) SELECT COUNT(*) FROM d",
    "SELECT * FROM (WITH c AS (SELECT 1 AS a) SELECT * FROM c) AS d",
    "SELECT (WITH c AS (SELECT 1 AS a) SELECT a FROM c)",
    "SELECT COUNT(*) FROM (SELECT 1 AS x) AS d GROUP BY x WITH ROLLUP",
)

WITH_TABLE = _filled(
    "SELECT * FROM t",
    "SELECT * FROM `t`",
    "SELECT * FROM(t)",
    "SELECT VALUES(a) FROM t",
    "SELECT a FROM t WHERE FALSE",
    "SELECT a FROM t LIMIT 0",
    "SELECT COUNT(*) FROM t",
    "TABLE t",
    "TABLE t LIMIT 0",
    "(TABLE t)",
    "SELECT 1 FROM (TABLE t) AS d",
    "SELECT (SELECT MAX(a) FROM t)",
    "SELECT EXISTS(SELECT 1 FROM t)",
    "SELECT 1 IN (TABLE c)",
    "SELECT TRIM('x' FROM (SELECT b FROM t LIMIT 1))",
    "VALUES ROW((SELECT MAX(a) FROM t))",
    "SELECT 1 UNION SELECT a FROM t",
    "SELECT 1 UNION (SELECT a FROM t)",
    "SELECT 1 UNION TABLE c",
    "SELECT * FROM <json> AS j, t",
    "SELECT * FROM t, <json> AS j",
    "SELECT * FROM (<json> AS j, t)",
    "SELECT * FROM <json> AS j CROSS JOIN t",
    "SELECT * FROM <json> AS j NATURAL JOIN t",
    "SELECT * FROM <json> AS j STRAIGHT_JOIN t",
    "SELECT * FROM <json> AS j LEFT JOIN (t, c) ON TRUE",
    "SELECT * FROM <json> AS j WHERE a IN (SELECT a FROM t)",
    "SELECT * FROM (SELECT 1) AS d, t",
    "SELECT * FROM (SELECT 1 AS x) AS d (y), LATERAL (SELECT a FROM t WHERE a > y) AS e",
    "WITH c AS (SELECT a FROM t) SELECT * FROM c",
    "WITH c AS (SELECT 1 AS a) SELECT * FROM t",
    "WITH d AS (SELECT 1 AS a) SELECT * FROM d, c",
    "WITH c AS (SELECT a FROM c) SELECT * FROM c",
    "WITH c(a) AS (SELECT a FROM c) SELECT * FROM c",
    "WITH RECURSIVE d AS (SELECT a FROM c), c AS (SELECT 1 AS a) SELECT * FROM d",
    "SELECT * FROM (WITH c AS (SELECT 1 AS a) SELECT * FROM c) AS d, c",
    "WITH c AS (SELECT 1 AS a) SELECT * FROM app.c",
    "SELECT a FROM t GROUP BY a WITH ROLLUP",
)
"""In these, every common table expression that has a table is read."""
