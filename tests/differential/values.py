"""What stands in the places of the texts, such as `<id>`."""

VALUES: dict[str, tuple[str, ...]] = {
    "id": ("1", "2", "3", "4", "5", "6", "77"),
    "int": ("-1", "0", "1", "2", "3", "7", "10", "1000", "2147483648"),
    "str": (
        *("'one'", "'two'", "'new'", "''", "NULL", "'a\\'b'", "'ä'", "_latin1'\\xe9'", "x'ff'"),
        *("'longer than twenty characters'", '"quoted"', "'x' 'y'", "N'n'"),
    ),
    "dec": ("0", "1.5", "-2.25", "99999999.99", "1e3", "'abc'", "1.005", "12345678901.1"),
    "date": ("'2024-02-29'", "'2023-02-29'", "'0000-00-00'", "NULL", "'2024-01-01 10:11:12.5'"),
    "json": ("'{\"k\": [1, 2]}'", "'[]'", "'not json'", "NULL", "JSON_OBJECT('x', 1)"),
    "kind": ("'a'", "'b'", "'q'", "NULL", "2"),
    "flags": ("'x'", "'x,z'", "'w'", "''", "5"),
    "table": ("items", "parts", "plain", "joined", "missing", "side.words", "app.items", "fresh"),
    "lock": ("READ", "WRITE", "READ LOCAL"),
    "var": ("@a", "@b", "@c", "@`d e`"),
    "sp": ("s1", "s2"),
    "key": ("'k1'", "'k2'"),
    "temp": ("temp1", "temp2", "items"),
    "stmt": ("st1", "st2"),
    "lim": ("", "", " LIMIT 1", " LIMIT 2", " LIMIT 0", " LIMIT 1, 2"),
    "calc": ("", "", "SQL_CALC_FOUND_ROWS "),
    "expr": (
        *("1", "qty + 1", "LENGTH(note)", "COALESCE(price, 0)", "UPPER(name)", "twice(qty)"),
        *("qty / 0", "CAST(name AS SIGNED)", "doc->'$.a'", "HEX(data)", "total", "half", "made"),
        *("kind + 0", "flags", "DATE_FORMAT(made, '%W %M')", "made + INTERVAL 1 DAY", "NULL"),
        *("name COLLATE utf8mb4_bin", "note LIKE '%s%'", "qty DIV 2", "FORMAT(price, 1)", "@a"),
    ),
}
