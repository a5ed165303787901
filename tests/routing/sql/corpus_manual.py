"""One or more forms of every statement in the manual's chapter "SQL Statements" (9.7)."""

# The statements that the server's own help lists in the chapter's categories, and those in the
# manual that the help leaves out.
TOPICS = """
ALTER RESOURCE GROUP; ALTER USER; CREATE RESOURCE GROUP; CREATE ROLE; CREATE USER;
DROP RESOURCE GROUP; DROP ROLE; DROP USER; GRANT; RENAME USER; REVOKE; SET DEFAULT ROLE;
SET PASSWORD; SET RESOURCE GROUP; SET ROLE; BINLOG; CACHE INDEX; FLUSH; KILL; LOAD INDEX; RESET;
RESET PERSIST; RESTART; SET; SET CHARACTER SET; SET CHARSET; SET NAMES; SHOW BINARY LOG STATUS;
SHOW BINARY LOGS; SHOW BINLOG EVENTS; SHOW CHARACTER SET; SHOW COLLATION; SHOW COLUMNS;
SHOW CREATE DATABASE; SHOW CREATE EVENT; SHOW CREATE FUNCTION; SHOW CREATE PROCEDURE;
SHOW CREATE SCHEMA; SHOW CREATE TABLE; SHOW CREATE TRIGGER; SHOW CREATE USER; SHOW CREATE VIEW;
SHOW DATABASES; SHOW ENGINE; SHOW ENGINES; SHOW ERRORS; SHOW EVENTS; SHOW FIELDS;
SHOW FUNCTION CODE; SHOW FUNCTION STATUS; SHOW GRANTS; SHOW INDEX; SHOW OPEN TABLES;
SHOW PARSE_TREE; SHOW PLUGINS; SHOW PRIVILEGES; SHOW PROCEDURE CODE; SHOW PROCEDURE STATUS;
SHOW PROCESSLIST; SHOW PROFILE; SHOW PROFILES; SHOW RELAYLOG EVENTS; SHOW REPLICA STATUS;
SHOW REPLICAS; SHOW SCHEMAS; SHOW STATUS; SHOW TABLE STATUS; SHOW TABLES; SHOW TRIGGERS;
SHOW VARIABLES; SHOW WARNINGS; SHUTDOWN; CLONE; INSTALL COMPONENT; UNINSTALL COMPONENT;
INSTALL PLUGIN; UNINSTALL PLUGIN; BEGIN END; CASE STATEMENT; CLOSE; DECLARE CONDITION;
DECLARE CURSOR; DECLARE HANDLER; DECLARE VARIABLE; FETCH; GET DIAGNOSTICS; IF STATEMENT; ITERATE;
LABELS; LEAVE; LOOP; OPEN; REPEAT LOOP; RESIGNAL; RETURN; SIGNAL; WHILE; ALTER DATABASE;
ALTER EVENT; ALTER FUNCTION; ALTER INSTANCE; ALTER LOGFILE GROUP; ALTER PROCEDURE; ALTER SCHEMA;
ALTER SERVER; ALTER TABLE; ALTER TABLESPACE; ALTER VIEW; CREATE DATABASE; CREATE EVENT;
CREATE FUNCTION; CREATE INDEX; CREATE LOGFILE GROUP; CREATE PROCEDURE; CREATE SCHEMA;
CREATE SERVER; CREATE SPATIAL REFERENCE SYSTEM; CREATE TABLE; CREATE TABLESPACE; CREATE TRIGGER;
CREATE VIEW; DROP DATABASE; DROP EVENT; DROP FUNCTION; DROP INDEX; DROP PROCEDURE; DROP SCHEMA;
DROP SERVER; DROP SPATIAL REFERENCE SYSTEM; DROP TABLE; DROP TABLESPACE; DROP TRIGGER; DROP VIEW;
RENAME TABLE; TRUNCATE TABLE; CALL; DELETE; DO; EXCEPT; HANDLER; IMPORT TABLE; INSERT;
INSERT DELAYED; INSERT SELECT; INTERSECT; LOAD DATA; LOAD XML; PARENTHESIZED QUERY EXPRESSIONS;
REPLACE; SELECT; TABLE; UNION; UPDATE; VALUES STATEMENT; CREATE FUNCTION LOADABLE FUNCTION;
DROP FUNCTION LOADABLE FUNCTION; DEALLOCATE PREPARE; DROP PREPARE; EXECUTE STATEMENT; PREPARE;
CHANGE REPLICATION FILTER; CHANGE REPLICATION SOURCE TO; PURGE BINARY LOGS;
RESET BINARY LOGS AND GTIDS; RESET REPLICA; SET SQL_LOG_BIN; START REPLICA; STOP REPLICA;
ANALYZE TABLE; CHECK TABLE; CHECKSUM TABLE; OPTIMIZE TABLE; REPAIR TABLE; BEGIN; COMMIT;
LOCK INSTANCE FOR BACKUP; LOCK TABLES; RELEASE SAVEPOINT; ROLLBACK; ROLLBACK TO SAVEPOINT;
SAVEPOINT; SET TRANSACTION; START TRANSACTION; XA; DESC; DESCRIBE; EXPLAIN; HELP STATEMENT; USE;
WITH; START GROUP_REPLICATION; STOP GROUP_REPLICATION; CREATE LIBRARY; ALTER LIBRARY; DROP LIBRARY;
SHOW CREATE LIBRARY; SHOW LIBRARY STATUS; SHOW COUNT; DROP LOGFILE GROUP;
CREATE JSON DUALITY VIEW; ALTER JSON DUALITY VIEW; CREATE TEMPORARY TABLE; DROP TEMPORARY TABLE;
UNLOCK TABLES; UNLOCK INSTANCE; ALTER USER DEFAULT ROLE
"""

# Topic: statements with their class and whether they may commit something ("!") or leave state on
# the connection that later statements need ("+").
MANUAL: dict[str, list[tuple[str, str]]] = {
    # Data definition
    "ALTER DATABASE": [("ALTER DATABASE d CHARACTER SET utf8mb4", "write!")],
    "ALTER SCHEMA": [("ALTER SCHEMA d READ ONLY = 1", "write!")],
    "ALTER EVENT": [("ALTER EVENT e DISABLE", "write!")],
    "ALTER FUNCTION": [("ALTER FUNCTION f COMMENT 'x'", "write!")],
    "ALTER INSTANCE": [("ALTER INSTANCE ROTATE INNODB MASTER KEY", "write!")],
    "ALTER LIBRARY": [("ALTER LIBRARY l COMMENT 'x'", "write!")],
    "ALTER LOGFILE GROUP": [("ALTER LOGFILE GROUP g ADD UNDOFILE 'u'", "write!")],
    "ALTER PROCEDURE": [("ALTER PROCEDURE p SQL SECURITY INVOKER", "write!")],
    "ALTER SERVER": [("ALTER SERVER s OPTIONS (USER 'u')", "write!")],
    "ALTER TABLE": [
        ("ALTER TABLE t ADD COLUMN b INT", "write!"),
        ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (5))", "write!"),
    ],
    "ALTER TABLESPACE": [("ALTER TABLESPACE s RENAME TO r", "write!")],
    "ALTER VIEW": [("ALTER VIEW v AS SELECT 1", "write!")],
    "CREATE JSON DUALITY VIEW": [
        (
            "CREATE JSON DUALITY VIEW v AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM t",
            "write!",
        )
    ],
    "ALTER JSON DUALITY VIEW": [
        ("ALTER JSON DUALITY VIEW v AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM t", "write!")
    ],
    "CREATE DATABASE": [("CREATE DATABASE IF NOT EXISTS d", "write!")],
    "CREATE SCHEMA": [("CREATE SCHEMA d", "write!")],
    "CREATE EVENT": [
        ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", "write!"),
        ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN SET @a = 1; SELECT 1; END", "write!"),
    ],
    "CREATE FUNCTION": [
        ("CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC RETURN a", "write!"),
        (
            "CREATE FUNCTION f() RETURNS INT BEGIN IF 1 THEN RETURN 1; END IF; RETURN 2; END",
            "write!",
        ),
        ("CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS $$ return 1; $$", "write!"),
    ],
    "CREATE FUNCTION LOADABLE FUNCTION": [
        ("CREATE FUNCTION f RETURNS STRING SONAME 'f.so'", "write!")
    ],
    "CREATE INDEX": [("CREATE UNIQUE INDEX i ON t (a, (b + 1))", "write!")],
    "CREATE LIBRARY": [("CREATE LIBRARY l LANGUAGE JAVASCRIPT AS 'export let a = 1;'", "write!")],
    "CREATE LOGFILE GROUP": [("CREATE LOGFILE GROUP g ADD UNDOFILE 'u' ENGINE NDB", "write!")],
    "CREATE PROCEDURE": [
        (
            "CREATE PROCEDURE p() BEGIN SELECT 1; CASE 1 WHEN 1 THEN SELECT 2; END CASE; END",
            "write!",
        )
    ],
    "CREATE SERVER": [("CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h')", "write!")],
    "CREATE SPATIAL REFERENCE SYSTEM": [
        ("CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x' DEFINITION 'y'", "write!")
    ],
    "CREATE TABLE": [
        ("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10) DEFAULT (UUID()))", "write!"),
        ("CREATE TABLE t LIKE u", "write!"),
        ("CREATE TABLE t SELECT * FROM u", "write!"),
        ("CREATE TABLE t SELECT GET_LOCK('a', 1)", "write!+"),
    ],
    "CREATE TEMPORARY TABLE": [
        ("CREATE TEMPORARY TABLE t (a INT)", "pin!+"),
        ("CREATE TEMPORARY TABLE IF NOT EXISTS t SELECT 1", "pin!+"),
    ],
    "CREATE TABLESPACE": [("CREATE TABLESPACE s ADD DATAFILE 'f.ibd'", "write!")],
    "CREATE TRIGGER": [
        ("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = @a + 1", "write!"),
        ("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; END", "write!"),
    ],
    "CREATE VIEW": [("CREATE OR REPLACE VIEW v AS SELECT f(1)", "write!")],
    "DROP DATABASE": [("DROP DATABASE IF EXISTS d", "write!")],
    "DROP SCHEMA": [("DROP SCHEMA d", "write!")],
    "DROP EVENT": [("DROP EVENT e", "write!")],
    "DROP FUNCTION": [("DROP FUNCTION f", "write!")],
    "DROP FUNCTION LOADABLE FUNCTION": [("DROP FUNCTION IF EXISTS f", "write!")],
    "DROP INDEX": [("DROP INDEX i ON t", "write!")],
    "DROP LIBRARY": [("DROP LIBRARY l", "write!")],
    "DROP LOGFILE GROUP": [("DROP LOGFILE GROUP g ENGINE NDB", "write!")],
    "DROP PROCEDURE": [("DROP PROCEDURE p", "write!")],
    "DROP SERVER": [("DROP SERVER s", "write!")],
    "DROP SPATIAL REFERENCE SYSTEM": [("DROP SPATIAL REFERENCE SYSTEM 4120", "write!")],
    "DROP TABLE": [("DROP TABLE IF EXISTS t, u", "write!")],
    "DROP TEMPORARY TABLE": [("DROP TEMPORARY TABLE t", "write!")],
    "DROP TABLESPACE": [("DROP UNDO TABLESPACE s", "write!")],
    "DROP TRIGGER": [("DROP TRIGGER g", "write!")],
    "DROP VIEW": [("DROP VIEW v", "write!")],
    "RENAME TABLE": [("RENAME TABLE t TO u", "write!")],
    "TRUNCATE TABLE": [("TRUNCATE TABLE t", "write!"), ("TRUNCATE t", "write!")],
    # Data manipulation
    "CALL": [
        ("CALL p(1, @a)", "write!"),
        ("CALL p", "write!"),
        ("CALL p(GET_LOCK('a', 1))", "write!+"),
    ],
    "DELETE": [
        ("DELETE FROM t WHERE a = 1 LIMIT 1", "write!"),
        ("DELETE t FROM t JOIN u USING (a)", "write!"),
        ("WITH c AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM c)", "write!"),
    ],
    "DO": [
        ("DO 1", "session"),
        ("DO SLEEP(5)", "session"),
        ("DO GET_LOCK('a', 1)", "pin+"),
        ("DO RELEASE_LOCK('a')", "session"),
        ("DO f(1)", "write!"),
    ],
    "EXCEPT": [("SELECT a FROM t EXCEPT SELECT a FROM u", "read")],
    "INTERSECT": [("SELECT a FROM t INTERSECT (SELECT a FROM u) ORDER BY a", "read")],
    "UNION": [
        ("SELECT 1 UNION ALL SELECT 2", "read"),
        ("(SELECT 1) UNION DISTINCT (SELECT 2) LIMIT 1", "read"),
        ("SELECT 1 UNION SELECT a FROM t FOR UPDATE", "write"),
    ],
    "HANDLER": [
        ("HANDLER t OPEN", "pin+"),
        ("HANDLER t READ FIRST", "pin"),
        ("HANDLER t CLOSE", "pin"),
    ],
    "IMPORT TABLE": [("IMPORT TABLE FROM '/tmp/t.sdi'", "write!")],
    "INSERT": [
        ("INSERT INTO t (a, b) VALUES (1, 2), (3, 4)", "write!"),
        ("INSERT IGNORE t SET a = 1 ON DUPLICATE KEY UPDATE a = VALUES(a)", "write!"),
        ("INSERT INTO t VALUES (@a := 1)", "write!"),
    ],
    "INSERT DELAYED": [("INSERT DELAYED INTO t VALUES (1)", "write!")],
    "INSERT SELECT": [
        ("INSERT INTO t SELECT * FROM u", "write!"),
        ("INSERT INTO t WITH c AS (SELECT 1) SELECT * FROM c", "write!"),
        ("INSERT INTO t SELECT GET_LOCK('a', 1)", "write!+"),
    ],
    "LOAD DATA": [
        ("LOAD DATA INFILE 'f' INTO TABLE t (a, @b) SET c = @b", "write!"),
        ("LOAD DATA LOCAL INFILE 'f' REPLACE INTO TABLE t", "write!"),
    ],
    "LOAD XML": [("LOAD XML INFILE 'f' INTO TABLE t", "write!")],
    "PARENTHESIZED QUERY EXPRESSIONS": [
        ("(SELECT 1)", "read"),
        ("((SELECT a FROM t LIMIT 1) UNION SELECT 2) ORDER BY a", "read"),
        ("(SELECT 1) INTO @a", "session"),
        ("(UPDATE t SET a = 1)", "write!"),
    ],
    "REPLACE": [("REPLACE INTO t VALUES (1)", "write!"), ("REPLACE t SELECT 1", "write!")],
    "SELECT": [
        ("SELECT 1", "read"),
        ("SELECT * FROM t WHERE a = 1", "read"),
        ("SELECT DISTINCT STRAIGHT_JOIN SQL_SMALL_RESULT a FROM t PARTITION (p0)", "read"),
        ("SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1", "read"),
        ("SELECT * FROM t FOR UPDATE", "write"),
        ("SELECT * FROM t FOR UPDATE OF t SKIP LOCKED", "write"),
        ("SELECT * FROM t FOR SHARE NOWAIT", "write"),
        ("SELECT * FROM t LOCK IN SHARE MODE", "write"),
        ("SELECT * FROM (SELECT * FROM t FOR UPDATE) x", "write"),
        ("SELECT a INTO @x FROM t", "session"),
        ("SELECT a FROM t INTO @x", "session"),
        ("SELECT * FROM t INTO OUTFILE '/tmp/t'", "write!"),
        ("SELECT * INTO DUMPFILE '/tmp/t' FROM t", "write!"),
    ],
    "TABLE": [
        ("TABLE t ORDER BY a LIMIT 5", "read"),
        ("TABLE t INTO OUTFILE 'f'", "write!"),
    ],
    "UPDATE": [
        ("UPDATE t, u SET t.a = u.a WHERE t.b = u.b", "write!"),
        ("WITH c AS (SELECT 1 AS a) UPDATE t, c SET t.a = c.a", "write!"),
        ("UPDATE t SET a = (@n := @n + 1)", "write!"),
    ],
    "VALUES STATEMENT": [("VALUES ROW(1, 2), ROW(3, 4) ORDER BY column_0", "read")],
    "WITH": [
        ("WITH c AS (SELECT 1) SELECT * FROM c", "read"),
        ("WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) TABLE c", "read"),
        ("WITH a (x) AS (SELECT 1), b (y, z) AS (SELECT 2, 3) SELECT * FROM a, b", "read"),
        ("WITH c AS (SELECT f(1)) SELECT * FROM c", "write!"),
    ],
    # Transactions and locks
    "BEGIN": [("BEGIN", "transaction!"), ("begin work", "transaction!")],
    "START TRANSACTION": [
        ("START TRANSACTION", "transaction!"),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", "transaction!"),
    ],
    "COMMIT": [("COMMIT AND CHAIN NO RELEASE", "transaction!"), ("COMMIT WORK", "transaction!")],
    "ROLLBACK": [("ROLLBACK", "transaction"), ("ROLLBACK WORK AND CHAIN", "transaction")],
    "ROLLBACK TO SAVEPOINT": [("ROLLBACK TO SAVEPOINT s", "transaction")],
    "SAVEPOINT": [("SAVEPOINT s", "transaction")],
    "RELEASE SAVEPOINT": [("RELEASE SAVEPOINT s", "transaction")],
    "LOCK INSTANCE FOR BACKUP": [("LOCK INSTANCE FOR BACKUP", "pin!+")],
    "UNLOCK INSTANCE": [("UNLOCK INSTANCE", "session!")],
    "LOCK TABLES": [
        ("LOCK TABLES t READ LOCAL, u AS x WRITE", "pin!+"),
        ("LOCK TABLE t READ", "pin!+"),
    ],
    "UNLOCK TABLES": [("UNLOCK TABLES", "session!")],
    "SET TRANSACTION": [
        ("SET TRANSACTION READ ONLY", "transaction"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE", "transaction"),
        ("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE", "transaction"),
    ],
    "XA": [
        ("XA START 'a', 'b', 1", "transaction!+"),
        ("XA BEGIN 'a'", "transaction!+"),
        ("XA END 'a'", "transaction"),
        ("XA PREPARE 'a'", "transaction!"),
        ("XA COMMIT 'a' ONE PHASE", "transaction!"),
        ("XA ROLLBACK 'a'", "transaction!"),
        ("XA RECOVER CONVERT XID", "session"),
    ],
    # Replication
    "PURGE BINARY LOGS": [("PURGE BINARY LOGS TO 'b.000010'", "write!")],
    "RESET BINARY LOGS AND GTIDS": [("RESET BINARY LOGS AND GTIDS", "write!")],
    "SET SQL_LOG_BIN": [("SET sql_log_bin = OFF", "session")],
    "CHANGE REPLICATION FILTER": [
        ("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (d)", "write!"),
    ],
    "CHANGE REPLICATION SOURCE TO": [
        ("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h'", "write!"),
    ],
    "RESET REPLICA": [("RESET REPLICA ALL", "write!")],
    "START REPLICA": [("START REPLICA SQL_THREAD UNTIL SQL_AFTER_MTS_GAPS", "write!")],
    "STOP REPLICA": [("STOP REPLICA IO_THREAD", "write!")],
    "START GROUP_REPLICATION": [("START GROUP_REPLICATION USER = 'u'", "write!")],
    "STOP GROUP_REPLICATION": [("STOP GROUP_REPLICATION", "write!")],
    # Prepared statements
    "PREPARE": [
        ("PREPARE s FROM 'SELECT ?'", "session"),
        ("PREPARE s FROM @sql", "session"),
    ],
    "EXECUTE STATEMENT": [("EXECUTE s USING @a", "session!+")],
    "DEALLOCATE PREPARE": [("DEALLOCATE PREPARE s", "session")],
    "DROP PREPARE": [("DROP PREPARE s", "session")],
    # Compound statements: but for diagnostics and signals, errors outside stored programs
    "BEGIN END": [("BEGIN SELECT 1; END", "write!"), ("BEGIN NOT ATOMIC SELECT 1", "write!")],
    "LABELS": [("l: BEGIN SELECT 1; END", "write!")],
    "DECLARE VARIABLE": [("DECLARE a INT DEFAULT 1", "write!")],
    "DECLARE CONDITION": [("DECLARE c CONDITION FOR 1051", "write!")],
    "DECLARE CURSOR": [("DECLARE c CURSOR FOR SELECT 1", "write!")],
    "DECLARE HANDLER": [("DECLARE EXIT HANDLER FOR 1051 SELECT 1", "write!")],
    "CASE STATEMENT": [("CASE a WHEN 1 THEN SELECT 1; END CASE", "write!")],
    "IF STATEMENT": [("IF 1 THEN SELECT 1; END IF", "write!")],
    "ITERATE": [("ITERATE l", "write!")],
    "LEAVE": [("LEAVE l", "write!")],
    "LOOP": [("LOOP SELECT 1; END LOOP", "write!")],
    "REPEAT LOOP": [("REPEAT SELECT 1; UNTIL 1 END REPEAT", "write!")],
    "RETURN": [("RETURN 1", "write!")],
    "WHILE": [("WHILE 1 DO SELECT 1; END WHILE", "write!")],
    "OPEN": [("OPEN c", "write!")],
    "FETCH": [("FETCH NEXT FROM c INTO a", "write!")],
    "CLOSE": [("CLOSE c", "write!")],
    "GET DIAGNOSTICS": [
        ("GET DIAGNOSTICS @n = ROW_COUNT", "session"),
        ("GET CURRENT DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT", "session"),
        ("GET STACKED DIAGNOSTICS @n = NUMBER", "session"),
    ],
    "SIGNAL": [("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'x'", "session")],
    "RESIGNAL": [("RESIGNAL", "session")],
    # Accounts
    "ALTER USER": [("ALTER USER u IDENTIFIED BY 'x'", "write!")],
    "ALTER USER DEFAULT ROLE": [("ALTER USER u DEFAULT ROLE ALL", "write!")],
    "CREATE ROLE": [("CREATE ROLE r", "write!")],
    "CREATE USER": [("CREATE USER 'u'@'%' IDENTIFIED BY 'x'", "write!")],
    "DROP ROLE": [("DROP ROLE r", "write!")],
    "DROP USER": [("DROP USER u", "write!")],
    "GRANT": [("GRANT SELECT (a), EXECUTE ON d.* TO u", "write!")],
    "RENAME USER": [("RENAME USER u TO v", "write!")],
    "REVOKE": [("REVOKE ALL ON d.* FROM u", "write!")],
    "SET DEFAULT ROLE": [("SET DEFAULT ROLE NONE TO u", "write!")],
    "SET PASSWORD": [
        ("SET PASSWORD = 'x'", "write!"),
        ("SET PASSWORD FOR u = 'x'", "write!"),
        ("SET PASSWORD TO RANDOM", "write!"),
    ],
    "SET ROLE": [("SET ROLE ALL EXCEPT r", "session")],
    "ALTER RESOURCE GROUP": [("ALTER RESOURCE GROUP g VCPU = 0", "write!")],
    "CREATE RESOURCE GROUP": [("CREATE RESOURCE GROUP g TYPE = USER", "write!")],
    "DROP RESOURCE GROUP": [("DROP RESOURCE GROUP g", "write!")],
    "SET RESOURCE GROUP": [("SET RESOURCE GROUP g FOR 5", "session")],
    # Tables, plugins, components, server
    "ANALYZE TABLE": [
        ("ANALYZE NO_WRITE_TO_BINLOG TABLE t", "write!"),
        ("ANALYZE TABLE t UPDATE HISTOGRAM ON a", "write!"),
    ],
    "CHECK TABLE": [("CHECK TABLE t FOR UPGRADE", "write!")],
    "CHECKSUM TABLE": [("CHECKSUM TABLE t QUICK", "session")],
    "OPTIMIZE TABLE": [("OPTIMIZE TABLE t", "write!")],
    "REPAIR TABLE": [("REPAIR TABLE t", "write!")],
    "INSTALL COMPONENT": [("INSTALL COMPONENT 'file://c' SET GLOBAL a = 1", "write!")],
    "INSTALL PLUGIN": [("INSTALL PLUGIN p SONAME 'p.so'", "write!")],
    "UNINSTALL COMPONENT": [("UNINSTALL COMPONENT 'file://c'", "write!")],
    "UNINSTALL PLUGIN": [("UNINSTALL PLUGIN p", "write!")],
    "CLONE": [("CLONE LOCAL DATA DIRECTORY = '/tmp/c'", "write!")],
    "BINLOG": [("BINLOG 'x'", "write!")],
    "CACHE INDEX": [("CACHE INDEX t IN c", "write!")],
    "FLUSH": [
        ("FLUSH PRIVILEGES", "write!"),
        ("FLUSH TABLES t, u", "write!"),
        ("FLUSH LOCAL TABLES status", "write!"),
        ("FLUSH HOSTS, STATUS", "pin!+"),
        ("FLUSH TABLES WITH READ LOCK", "pin!+"),
        ("FLUSH TABLES t FOR EXPORT", "pin!+"),
    ],
    "KILL": [("KILL 5", "session"), ("KILL QUERY 5", "session"), ("KILL CONNECTION @a", "session")],
    "LOAD INDEX": [("LOAD INDEX INTO CACHE t", "write!")],
    "RESET": [("RESET REPLICA, BINARY LOGS AND GTIDS", "write!")],
    "RESET PERSIST": [("RESET PERSIST IF EXISTS a", "write!")],
    "RESTART": [("RESTART", "write!")],
    "SHUTDOWN": [("SHUTDOWN", "write!")],
    # SET
    "SET": [
        ("SET sql_mode = 'ANSI'", "session"),
        ("SET @@SESSION.sql_mode = DEFAULT, GLOBAL max_connections = 5", "session"),
        ("SET PERSIST max_connections = 5", "session"),
        ("SET @a = 1, @b := 'x'", "session"),
        ("SET @a = (SELECT COUNT(*) FROM t)", "session"),
        ("SET @a = f(1)", "write!"),
        ("SET @a = GET_LOCK('a', 1)", "pin+"),
        ("SET @a = (@b := 1)", "session"),
        ("SET @a = (SELECT 1 FROM t FOR UPDATE)", "write"),
        ("SET autocommit = 1", "session!"),
        ("SET STATEMENT max_statement_time = 1 FOR SELECT 1", "write!"),
        ("SET", "write!"),
        ("SET a", "write!"),
    ],
    "SET CHARACTER SET": [("SET CHARACTER SET 'latin1'", "session")],
    "SET CHARSET": [("SET CHARSET DEFAULT", "session")],
    "SET NAMES": [("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'", "session")],
    # SHOW
    "SHOW BINARY LOG STATUS": [("SHOW BINARY LOG STATUS", "session")],
    "SHOW BINARY LOGS": [("SHOW BINARY LOGS", "session")],
    "SHOW BINLOG EVENTS": [("SHOW BINLOG EVENTS IN 'b' FROM 4 LIMIT 1", "session")],
    "SHOW CHARACTER SET": [("SHOW CHARACTER SET LIKE 'u%'", "read")],
    "SHOW COLLATION": [("SHOW COLLATION WHERE Charset = 'latin1'", "read")],
    "SHOW COLUMNS": [("SHOW EXTENDED FULL COLUMNS FROM t FROM d LIKE 'a%'", "read")],
    "SHOW FIELDS": [
        ("SHOW FIELDS IN t", "read"),
        ("SHOW COLUMNS FROM mysql.user", "session"),
        ("SHOW COLUMNS FROM user IN mysql", "session"),
    ],
    "SHOW CREATE DATABASE": [("SHOW CREATE DATABASE IF NOT EXISTS d", "read")],
    "SHOW CREATE SCHEMA": [("SHOW CREATE SCHEMA d", "read")],
    "SHOW CREATE EVENT": [("SHOW CREATE EVENT e", "session")],
    "SHOW CREATE FUNCTION": [("SHOW CREATE FUNCTION f", "read")],
    "SHOW CREATE LIBRARY": [("SHOW CREATE LIBRARY l", "read")],
    "SHOW CREATE PROCEDURE": [("SHOW CREATE PROCEDURE p", "read")],
    "SHOW CREATE TABLE": [("SHOW CREATE TABLE d.t", "read")],
    "SHOW CREATE TRIGGER": [("SHOW CREATE TRIGGER g", "read")],
    "SHOW CREATE USER": [("SHOW CREATE USER u@h", "session")],
    "SHOW CREATE VIEW": [("SHOW CREATE VIEW v", "read")],
    "SHOW DATABASES": [("SHOW DATABASES", "read")],
    "SHOW SCHEMAS": [("SHOW SCHEMAS LIKE 'd%'", "read")],
    "SHOW ENGINE": [("SHOW ENGINE INNODB STATUS", "session")],
    "SHOW ENGINES": [("SHOW STORAGE ENGINES", "session"), ("SHOW ENGINES", "session")],
    "SHOW ERRORS": [("SHOW ERRORS LIMIT 1", "diagnostic")],
    "SHOW WARNINGS": [("SHOW WARNINGS", "diagnostic")],
    "SHOW COUNT": [
        ("SHOW COUNT(*) WARNINGS", "diagnostic"),
        ("SHOW COUNT( * ) ERRORS", "diagnostic"),
    ],
    "SHOW EVENTS": [("SHOW EVENTS FROM d", "session")],
    "SHOW FUNCTION CODE": [("SHOW FUNCTION CODE f", "session")],
    "SHOW FUNCTION STATUS": [("SHOW FUNCTION STATUS LIKE 'f'", "read")],
    "SHOW PROCEDURE CODE": [("SHOW PROCEDURE CODE p", "session")],
    "SHOW PROCEDURE STATUS": [("SHOW PROCEDURE STATUS", "read")],
    "SHOW LIBRARY STATUS": [("SHOW LIBRARY STATUS", "read")],
    "SHOW GRANTS": [("SHOW GRANTS FOR CURRENT_USER USING r", "session")],
    "SHOW INDEX": [
        ("SHOW INDEX FROM t WHERE Key_name = 'PRIMARY'", "read"),
        ("SHOW EXTENDED KEYS FROM t", "read"),
        ("SHOW INDEXES FROM t", "read"),
        ("SHOW INDEXES FROM threads FROM `performance_schema`", "session"),
    ],
    "SHOW OPEN TABLES": [("SHOW OPEN TABLES", "session")],
    "SHOW PARSE_TREE": [("SHOW PARSE_TREE SELECT 1", "session")],
    "SHOW PLUGINS": [("SHOW PLUGINS", "session")],
    "SHOW PRIVILEGES": [("SHOW PRIVILEGES", "session")],
    "SHOW PROCESSLIST": [("SHOW FULL PROCESSLIST", "session")],
    "SHOW PROFILE": [("SHOW PROFILE CPU FOR QUERY 2", "session")],
    "SHOW PROFILES": [("SHOW PROFILES", "session")],
    "SHOW RELAYLOG EVENTS": [("SHOW RELAYLOG EVENTS FOR CHANNEL 'c'", "session")],
    "SHOW REPLICA STATUS": [("SHOW REPLICA STATUS FOR CHANNEL 'c'", "session")],
    "SHOW REPLICAS": [("SHOW REPLICAS", "session")],
    "SHOW STATUS": [("SHOW GLOBAL STATUS LIKE 'Threads%'", "session"), ("SHOW STATUS", "session")],
    "SHOW TABLE STATUS": [
        ("SHOW TABLE STATUS FROM d", "read"),
        ("SHOW TABLE STATUS FROM performance_schema", "session"),
    ],
    "SHOW TABLES": [
        ("SHOW FULL TABLES FROM d", "read"),
        ("SHOW TABLES WHERE Tables_in_d LIKE 'a%'", "read"),
        ("SHOW TABLES WHERE f(Tables_in_d)", "write!"),
        ("SHOW TABLES WHERE Tables_in_d = @a", "read"),
        ("SHOW TABLES WHERE GET_LOCK('a', 1)", "pin+"),
    ],
    "SHOW TRIGGERS": [("SHOW TRIGGERS", "read")],
    "SHOW VARIABLES": [
        ("SHOW SESSION VARIABLES LIKE 'a'", "session"),
        ("SHOW VARIABLES WHERE f(1)", "write!"),
    ],
    # Utility
    "DESC": [("DESC t", "read"), ("DESC d.t 'a%'", "read")],
    "DESCRIBE": [
        ("DESCRIBE t a", "read"),
        ("DESCRIBE performance_schema.threads", "session"),
        ("DESCRIBE UPDATE t SET a = 1", "session"),
    ],
    "EXPLAIN": [
        ("EXPLAIN SELECT * FROM t", "read"),
        ("EXPLAIN FORMAT = JSON (SELECT 1)", "read"),
        ("EXPLAIN FORMAT=TREE FOR SCHEMA d TABLE t", "read"),
        ("EXPLAIN FORMAT=JSON FOR SCHEMA performance_schema TABLE threads", "session"),
        ("EXPLAIN ANALYZE FOR DATABASE `Sys` SELECT * FROM session", "session"),
        ("EXPLAIN FOR SCHEMA mysql UPDATE user SET a = f(1)", "write!"),
        ("EXPLAIN ANALYZE SELECT * FROM t", "read"),
        ("EXPLAIN ANALYZE SELECT f(1)", "write!"),
        ("EXPLAIN SELECT f(1)", "write!"),
        ("EXPLAIN SELECT @a", "read"),
        ("EXPLAIN SELECT * FROM t FOR UPDATE", "write"),
        ("EXPLAIN DELETE FROM t", "session"),
        ("EXPLAIN UPDATE t SET a = f(1)", "write!"),
        ("EXPLAIN ANALYZE UPDATE t SET a = 1", "write!"),
        ("EXPLAIN FOR CONNECTION 5", "session"),
        ("EXPLAIN FORMAT=JSON INTO @x SELECT 1", "session"),
        ("EXPLAIN", "write!"),
        ("EXPLAIN FORMAT =", "write!"),
        ("EXPLAIN t SET a = 1", "write!"),
    ],
    "HELP STATEMENT": [("HELP 'SELECT'", "session")],
    "USE": [("USE d", "session")],
}

# Statements that only other servers have, or none.
UNKNOWN = [
    "",
    ";",
    "-- nothing",
    "/* nothing */",
    "FROB t",
    "`SELECT` 1",
    "'SELECT 1'",
    "1",
    "@a",
    "?",
    "BACKUP STAGE START",
    "GET a",
    "NEXT VALUE FOR s",
    "SHOW FROBS",
    "SHOW COUNT(*) FROBS",
    "SHOW",
    "EXECUTE IMMEDIATE 'SELECT 1'; SELECT 1",
    "SELECTED 1",
    "((1))",
]
