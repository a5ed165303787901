// A JDBC driver (the argument: its name in URLs) at a server, at its default settings and with TLS and compression.
// Writes what tidegate_recording.py writes. Run as a single source file, with the driver on the class path.
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.LinkedHashMap;
import java.util.Map;

public class Jdbc {
    interface Check {
        void run(Connection connection) throws Exception;
    }

    static void same(Object expected, Object found) {
        if (!String.valueOf(expected).equals(String.valueOf(found))) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static String value(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            return rows.next() ? rows.getString(1) : null;
        }
    }

    static void run(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static void refused(int code, String state, Connection connection, String sql) throws SQLException {
        try {
            run(connection, sql);
        } catch (SQLException error) {
            same(code, error.getErrorCode());
            same(state, error.getSQLState());
            return;
        }
        throw new AssertionError("no error: " + sql);
    }

    /** Through Tidegate, see the statement read from a replica, whichever of them has caught up by then. */
    static void fromReplica(Connection connection, String sql) throws Exception {
        if (!"tidegate".equals(System.getenv("TIDEGATE_TARGET"))) {
            return;
        }
        String role = null;
        for (int tries = 0; tries < 100 && !"replica".equals(role); tries++) {
            value(connection, sql);
            try (Statement statement = connection.createStatement();
                    ResultSet last = statement.executeQuery("SHOW TIDEGATE LAST")) {
                last.next();
                role = last.getString("role");
            }
            connection.commit();
            Thread.sleep(20);
        }
        same("replica", role);
    }

    static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    static {
        CHECKS.put("what was written is read", connection -> {
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))");
            run(connection, "INSERT INTO t VALUES (1, 'ä'), (2, 'b')");
            same("ä", value(connection, "SELECT v FROM t WHERE id = 1"));
        });
        CHECKS.put("prepared: what was written is read", connection -> {
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(10, 2))");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?, ?)");
                    PreparedStatement count = connection.prepareStatement("SELECT COUNT(*) FROM t WHERE id <= ?")) {
                for (int id = 0; id < 20; id++) {
                    insert.setInt(1, id);
                    insert.setBigDecimal(2, new java.math.BigDecimal("1.50"));
                    insert.executeUpdate();
                    count.setInt(1, id);
                    try (ResultSet rows = count.executeQuery()) {
                        rows.next();
                        same(id + 1, rows.getInt(1));
                    }
                }
            }
        });
        CHECKS.put("a batch", connection -> {
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY)");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?)")) {
                for (int id = 0; id < 5; id++) {
                    insert.setInt(1, id);
                    insert.addBatch();
                }
                insert.executeBatch();
            }
            same(5, value(connection, "SELECT COUNT(*) FROM t"));
        });
        CHECKS.put("a transaction, rolled back and committed", connection -> {
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY)");
            connection.setAutoCommit(false);
            run(connection, "INSERT INTO t VALUES (1)");
            connection.rollback();
            same(0, value(connection, "SELECT COUNT(*) FROM t"));
            run(connection, "INSERT INTO t VALUES (1)");
            connection.commit();
            connection.setAutoCommit(true);
            same(1, value(connection, "SELECT COUNT(*) FROM t"));
        });
        CHECKS.put("a READ ONLY transaction, which the driver alone knows of", connection -> {
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY)");
            connection.setReadOnly(true);
            same(0, value(connection, "SELECT COUNT(*) FROM t"));
            connection.setReadOnly(false);
        });
        CHECKS.put("a READ ONLY transaction, which the server is told of", connection -> {
            run(connection, "CREATE TABLE t (id INT PRIMARY KEY)");
            try (Connection told = open("assureReadOnly=true")) {
                told.setReadOnly(true);
                told.setAutoCommit(false);
                fromReplica(told, "SELECT COUNT(*) FROM t");
                same(0, value(told, "SELECT COUNT(*) FROM t"));
                run(connection, "INSERT INTO t VALUES (1)");
                same(0, value(told, "SELECT COUNT(*) FROM t"));
                refused(1792, "25006", told, "INSERT INTO t VALUES (2)");
                same(0, value(told, "SELECT COUNT(*) FROM t"));
                told.rollback();
                told.setReadOnly(false);
                run(told, "INSERT INTO t VALUES (2)");
                told.commit();
                same(2, value(told, "SELECT COUNT(*) FROM t"));
            }
            same(1, value(connection, "SELECT COUNT(*) FROM t WHERE id = 1"));
        });
        CHECKS.put("a procedure with several results", connection -> {
            run(connection, "DROP PROCEDURE IF EXISTS twice");
            run(connection, "CREATE PROCEDURE twice() BEGIN SELECT 1; SELECT 2; END");
            try (Statement statement = connection.createStatement()) {
                same(true, statement.execute("CALL twice()"));
                same(true, statement.getMoreResults());
            }
            same(77, value(connection, "SELECT 77"));
        });
        CHECKS.put("large values, and what compresses badly", connection -> {
            StringBuilder text = new StringBuilder();
            java.util.Random random = new java.util.Random(7);
            while (text.length() < 400_000) {
                text.append((char) ('!' + random.nextInt(90)));
            }
            run(connection, "CREATE TABLE t (v LONGTEXT)");
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO t VALUES (?)")) {
                for (int length : new int[] {60, 110, 300, 5_000, 400_000}) {
                    run(connection, "DELETE FROM t");
                    insert.setString(1, text.substring(0, length));
                    insert.executeUpdate();
                    same(text.substring(0, length), value(connection, "SELECT v FROM t"));
                }
            }
        });
        CHECKS.put("an error, and what comes after it", connection -> {
            refused(1146, "42S02", connection, "SELECT * FROM absent");
            same(1, value(connection, "SELECT 1"));
        });
    }

    static String url;

    static Connection open(String options) throws SQLException {
        return DriverManager.getConnection(
                url + "&" + options, System.getenv("TIDEGATE_USER"), System.getenv("TIDEGATE_PASSWORD"));
    }

    static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }

    public static void main(String[] arguments) throws Exception {
        // The first logs in over TLS, as somebody must before the defaults work at a server.
        Map<String, String> ways = new LinkedHashMap<>();
        ways.put("TLS", "useSSL=true&trustServerCertificate=true");
        ways.put("defaults", "");
        ways.put("compression", "useCompression=true");
        ways.put("prepared at the server", "useServerPrepStmts=true");
        Path record = Path.of(System.getenv("TIDEGATE_RECORD"));
        for (Map.Entry<String, String> way : ways.entrySet()) {
            url = String.format("jdbc:%s://%s:%s/test?%s", arguments[0],
                    System.getenv("TIDEGATE_HOST"), System.getenv("TIDEGATE_PORT"), way.getValue());
            for (Map.Entry<String, Check> check : CHECKS.entrySet()) {
                String outcome = "passed";
                String detail = "";
                try (Connection connection = open("")) {
                    run(connection, "DROP TABLE IF EXISTS t");
                    check.getValue().run(connection);
                } catch (Exception | AssertionError error) {
                    outcome = "failed";
                    detail = String.valueOf(error);
                }
                Files.writeString(record, String.format("{\"id\": %s, \"outcome\": \"%s\", \"detail\": %s}%n",
                        quoted(way.getKey() + ": " + check.getKey()), outcome, quoted(detail)),
                        StandardOpenOption.APPEND);
            }
        }
    }
}
