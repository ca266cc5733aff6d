import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** pgjdbc: its statements, and what DatabaseMetaData asks the system tables. */
public final class Checks {
    private static final int ROWS = 100_000;
    private static final String LONG = "select count(distinct a.value * b.value) from generate_series(1, 100000) a(value),"
            + " generate_series(1, 100000) b(value)";
    private static final OffsetDateTime MOMENT = OffsetDateTime.of(2024, 2, 29, 12, 34, 56, 500_000_000, ZoneOffset.UTC);
    private static final String TEXT = "Grüße, 'x' \"y\"";
    private static int count;

    private interface Run {
        void run() throws Exception;
    }

    private static void check(String name, Run run) {
        count++;
        try {
            run.run();
            System.out.println("jdbc " + name + " ok");
        } catch (Throwable error) {
            String text = (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("\\s+", " ");
            System.out.println("jdbc " + name + " FAIL " + text.substring(0, Math.min(300, text.length())));
        }
    }

    private static void equal(Object found, Object wanted) {
        boolean same = found instanceof byte[] bytes ? Arrays.equals(bytes, (byte[]) wanted) : java.util.Objects.equals(found, wanted);
        if (!same) {
            throw new AssertionError(found + " instead of " + wanted);
        }
    }

    private static void fails(String state, Run run) throws Exception {
        try {
            run.run();
        } catch (SQLException error) {
            if (!state.equals(error.getSQLState())) {
                throw new AssertionError(error.getSQLState() + " (" + error.getMessage() + ") instead of " + state);
            }
            return;
        }
        throw new AssertionError("no error, instead of " + state);
    }

    private static Connection connect(String... more) throws SQLException {
        Properties settings = new Properties();
        settings.setProperty("user", System.getenv("CORUN_USER"));
        settings.setProperty("password", System.getenv("CORUN_PASSWORD"));
        settings.setProperty("sslmode", "disable");
        for (int at = 0; at < more.length; at += 2) {
            settings.setProperty(more[at], more[at + 1]);
        }
        String url = "jdbc:postgresql://" + System.getenv("CORUN_HOST") + ":" + System.getenv("CORUN_PORT") + "/"
                + System.getenv("CORUN_DATABASE");
        return DriverManager.getConnection(url, settings);
    }

    private static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                found.add(rows.getString(name));
            }
        }
        return found;
    }

    private static Object one(Connection session, String text) throws SQLException {
        try (Statement statement = session.createStatement(); ResultSet rows = statement.executeQuery(text)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        check("tls", () -> {
            try (Connection other = connect("sslmode", "verify-full", "sslrootcert", System.getenv("CORUN_AUTHORITY"))) {
                equal(one(other, "select 1::int4"), 1);
            }
        });
        check("wrong-password", () -> fails("28P01", () -> connect("password", "wrong").close()));
        // After five runs a statement is prepared on the server and its values come in binary; -1: from the first run.
        for (String threshold : new String[] {"5", "-1", "0"}) {
            try (Connection session = connect("prepareThreshold", threshold)) {
                statements(session, "-threshold-" + threshold.replace("-1", "now"));
            }
        }
        for (String mode : new String[] {"simple", "extendedForPrepared", "extendedCacheEverything"}) {
            check("query-mode-" + mode, () -> {
                try (Connection session = connect("preferQueryMode", mode);
                        PreparedStatement statement = session.prepareStatement("select t, n from types where id = ? and t = ?")) {
                    for (int run = 0; run < 7; run++) {
                        statement.setLong(1, 1);
                        statement.setString(2, TEXT);
                        try (ResultSet rows = statement.executeQuery()) {
                            equal(rows.next(), true);
                            equal(rows.getBigDecimal(2), new BigDecimal("-1234.500"));
                        }
                    }
                }
            });
        }
        try (Connection session = connect()) {
            metadata(session);
            others(session);
        }
        System.out.println("jdbc done " + count);
    }

    private static void statements(Connection session, String label) {
        check("types" + label, () -> {
            try (PreparedStatement statement = session.prepareStatement("select * from types order by id")) {
                for (int run = 0; run < 7; run++) {
                    try (ResultSet rows = statement.executeQuery()) {
                        rows.next();
                        equal(rows.getBoolean("b"), true);
                        equal(rows.getShort("i2"), (short) -2);
                        equal(rows.getInt("i4"), -4);
                        equal(rows.getLong("i8"), Long.MIN_VALUE);
                        equal(rows.getFloat("f4"), 0.5f);
                        equal(rows.getDouble("f8"), 1e300);
                        equal(rows.getBigDecimal("n"), new BigDecimal("-1234.500"));
                        equal(rows.getString("t"), TEXT);
                        equal(rows.getBytes("by"), new byte[] {0, -1});
                        equal(rows.getObject("d", LocalDate.class), LocalDate.of(2024, 2, 29));
                        equal(rows.getObject("ts", LocalDateTime.class), MOMENT.toLocalDateTime());
                        equal(rows.getObject("tsz", OffsetDateTime.class).toInstant(), MOMENT.toInstant());
                        equal(Arrays.asList((Object[]) rows.getArray("a").getArray()), Arrays.asList(1L, null, 3L));
                        equal(Arrays.asList((Object[]) rows.getArray("ta").getArray()), Arrays.asList("x", "y \"z\"", null));
                        rows.next();
                        for (int at = 2; at <= rows.getMetaData().getColumnCount(); at++) {
                            equal(rows.getObject(at), null);
                        }
                    }
                }
            }
        });
        check("parameters" + label, () -> {
            String text = "select id from types where id = ? and b = ? and n = ? and t = ? and d = ? and ts = ? and tsz = ? and by = ?";
            try (PreparedStatement statement = session.prepareStatement(text)) {
                for (int run = 0; run < 7; run++) {
                    statement.setLong(1, 1);
                    statement.setBoolean(2, true);
                    statement.setBigDecimal(3, new BigDecimal("-1234.5"));
                    statement.setString(4, TEXT);
                    statement.setObject(5, LocalDate.of(2024, 2, 29));
                    statement.setObject(6, MOMENT.toLocalDateTime());
                    statement.setObject(7, MOMENT);
                    statement.setBytes(8, new byte[] {0, -1});
                    try (ResultSet rows = statement.executeQuery()) {
                        equal(rows.next(), true);
                    }
                }
            }
        });
        Object[][] values = {
            {"bool", true}, {"int2", -7}, {"int4", 70000}, {"int8", 1L << 62}, {"float8", 1.25}, {"numeric", new BigDecimal("-12.345")},
            {"text", TEXT}, {"bytea", new byte[] {0, -1}}, {"date", Date.valueOf("1999-12-31")},
            {"uuid", UUID.fromString("12345678-1234-5678-1234-567812345678")},
        };
        for (Object[] value : values) {
            check("value-" + value[0] + label, () -> {
                try (PreparedStatement statement = session.prepareStatement("select ?::" + value[0])) {
                    for (int run = 0; run < 7; run++) {
                        statement.setObject(1, value[1]);
                        try (ResultSet rows = statement.executeQuery()) {
                            rows.next();
                            equal(rows.getObject(1), value[1]);
                        }
                        statement.setNull(1, Types.NULL);
                        try (ResultSet rows = statement.executeQuery()) {
                            rows.next();
                            equal(rows.getObject(1), null);
                        }
                    }
                }
            });
        }
        check("fetch-size" + label, () -> {
            session.setAutoCommit(false);
            try (PreparedStatement statement = session.prepareStatement("select x from numbers order by x")) {
                statement.setFetchSize(3000);
                int rows = 0;
                try (ResultSet found = statement.executeQuery()) {
                    while (found.next()) {
                        rows++;
                        equal(found.getInt(1), rows);
                    }
                }
                equal(rows, ROWS);
            } finally {
                session.rollback();
                session.setAutoCommit(true);
            }
        });
        check("arrays" + label, () -> {
            try (PreparedStatement statement = session.prepareStatement("select count(*) from types where id = any(?)")) {
                for (int run = 0; run < 7; run++) {
                    statement.setArray(1, session.createArrayOf("int8", new Object[] {1L, 2L}));
                    try (ResultSet rows = statement.executeQuery()) {
                        rows.next();
                        equal(rows.getLong(1), 2L);
                    }
                }
            }
        });
    }

    private static void metadata(Connection session) throws SQLException {
        var about = session.getMetaData();
        check("product", () -> {
            equal(about.getDatabaseProductName(), "PostgreSQL");
            equal(about.getDatabaseMajorVersion(), 15);
            equal(session.getSchema(), "public");
        });
        check("get-schemas", () -> {
            List<String> schemas = column(about.getSchemas(), "TABLE_SCHEM");
            equal(schemas.containsAll(List.of("public", "hr", "shop", "information_schema", "pg_catalog")), true);
        });
        check("get-catalogs", () -> equal(column(about.getCatalogs(), "TABLE_CAT"), List.of(System.getenv("CORUN_DATABASE"))));
        check("get-table-types", () -> equal(column(about.getTableTypes(), "TABLE_TYPE").contains("TABLE"), true));
        check("get-tables", () -> {
            equal(column(about.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME"), List.of("numbers", "people", "types"));
            equal(column(about.getTables(null, "shop", "ord%", null), "TABLE_NAME").contains("orders"), true);
        });
        check("get-columns", () -> {
            equal(column(about.getColumns(null, "shop", "orders", "%"), "COLUMN_NAME"),
                    List.of("id", "customer", "price", "status", "note"));
            try (ResultSet rows = about.getColumns(null, "public", "types", "n")) {
                rows.next();
                equal(rows.getInt("DATA_TYPE"), Types.NUMERIC);
                equal(rows.getInt("COLUMN_SIZE"), 12);
                equal(rows.getInt("DECIMAL_DIGITS"), 3);
                equal(rows.getString("IS_NULLABLE"), "YES");
            }
        });
        check("get-primary-keys", () -> {
            try (ResultSet rows = about.getPrimaryKeys(null, "shop", "orders")) {
                rows.next();
                equal(rows.getString("COLUMN_NAME"), "id");
                equal(rows.getString("PK_NAME"), "orders_pkey");
            }
        });
        check("get-index-info", () -> {
            List<String> names = column(about.getIndexInfo(null, "shop", "orders", false, false), "INDEX_NAME");
            equal(names.containsAll(List.of("orders_pkey")), true);
        });
        check("get-imported-keys", () -> equal(column(about.getImportedKeys(null, "shop", "orders"), "FKCOLUMN_NAME"), List.of()));
        check("get-exported-keys", () -> equal(column(about.getExportedKeys(null, "shop", "orders"), "FKCOLUMN_NAME"), List.of()));
        check("get-type-info", () -> equal(column(about.getTypeInfo(), "TYPE_NAME").contains("int8"), true));
        check("get-functions", () -> column(about.getFunctions(null, null, "%"), "FUNCTION_NAME"));
        check("get-procedures", () -> column(about.getProcedures(null, null, "%"), "PROCEDURE_NAME"));
        check("get-best-row-identifier", () -> equal(column(about.getBestRowIdentifier(null, "shop", "orders", 2, false), "COLUMN_NAME"), List.of("id")));
        check("get-table-privileges", () -> column(about.getTablePrivileges(null, "shop", "orders"), "PRIVILEGE"));
        check("get-client-info", () -> column(about.getClientInfoProperties(), "NAME"));
        check("result-metadata", () -> {
            String text = "select id, n, count(*), n * 2 from types group by id, n";
            try (PreparedStatement statement = session.prepareStatement(text); ResultSet rows = statement.executeQuery()) {
                ResultSetMetaData columns = rows.getMetaData();
                equal(columns.getColumnLabel(3), "count");
                equal(columns.getColumnLabel(4), "?column?");
                equal(columns.getColumnTypeName(1), "int8");
                equal(columns.getPrecision(2), 12);
                equal(columns.getScale(2), 3);
                equal(columns.getTableName(1), "");
            }
        });
    }

    private static void others(Connection session) {
        check("copy", () -> {
            var out = new java.io.StringWriter();
            CopyManager copies = session.unwrap(PGConnection.class).getCopyAPI();
            equal(copies.copyOut("copy (select x from numbers order by x limit 2) to stdout", out), 2L);
            equal(out.toString(), "1\n2\n");
        });
        check("cancel", () -> {
            try (Statement statement = session.createStatement()) {
                Thread canceller = new Thread(() -> {
                    try {
                        Thread.sleep(500);
                        statement.cancel();
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                });
                canceller.start();
                fails("57014", () -> statement.executeQuery(LONG));
                canceller.join();
            }
        });
        check("query-timeout", () -> {
            try (Statement statement = session.createStatement()) {
                statement.setQueryTimeout(1);
                fails("57014", () -> statement.executeQuery(LONG));
            }
        });
        check("errors", () -> {
            fails("42P01", () -> one(session, "select * from nothing_here"));
            fails("22012", () -> one(session, "select 1/0"));
            fails("25006", () -> session.createStatement().execute("create table x (a int)"));
            equal(one(session, "select 2::int4"), 2);
        });
        check("isolation", () -> {
            session.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            equal(session.getTransactionIsolation(), Connection.TRANSACTION_SERIALIZABLE);
        });
        check("transactions", () -> {
            session.setReadOnly(true);
            session.setAutoCommit(false);
            Savepoint before = session.setSavepoint("before");
            fails("22012", () -> one(session, "select 1/0"));
            fails("25P02", () -> one(session, "select 1"));
            session.rollback(before);
            equal(one(session, "select 3::int4"), 3);
            session.commit();
            session.setAutoCommit(true);
            session.setReadOnly(false);
        });
        check("several-statements", () -> {
            try (Statement statement = session.createStatement()) {
                statement.execute("select 1; select 2");
                equal(statement.getMoreResults(), true);
            }
        });
        check("batch", () -> {
            try (Statement statement = session.createStatement()) {
                statement.addBatch("set application_name = 'a'");
                statement.addBatch("reset application_name");
                equal(statement.executeBatch().length, 2);
            }
        });
        check("is-valid", () -> equal(session.isValid(10), true));
        check("schema", () -> {
            session.setSchema("shop");
            equal(one(session, "select count(*) from orders"), 3L);
            session.setSchema("public");
        });
        check("discard", () -> session.createStatement().execute("discard all"));
    }
}
