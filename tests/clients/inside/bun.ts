// Bun's own SQL client at a server: the usual things. It speaks the protocol itself, and sends statements before
// earlier ones are answered. The argument: "TLS" or "no TLS".
// Writes what languages.py reads.
import assert from "node:assert/strict";
import { SQL } from "bun";

const encryption = process.argv[2];
const setting = (name: string) => process.env[`TIDEGATE_${name}`]!;
const connect = () =>
  new SQL({
    adapter: "mysql",
    hostname: setting("HOST"),
    port: Number(setting("PORT")),
    username: setting("USER"),
    password: setting("PASSWORD"),
    database: "test",
    max: 1,
    ...(encryption === "TLS" ? { tls: { rejectUnauthorized: false } } : {}),
  });

const checks: Record<string, (sql: SQL) => Promise<void>> = {
  async "values of every kind"(sql) {
    await sql`CREATE TABLE t (a BIGINT UNSIGNED, b DECIMAL(10, 2), c DATETIME(6), d BLOB, e JSON, f TEXT, g INT)`;
    await sql`INSERT INTO t VALUES (${9223372036854775810n}, ${"1.50"}, ${new Date(678)}, ${Buffer.from([0, 255])}, ${'{"a": [1]}'}, ${"zoë 😀"}, ${null})`;
    const [row] = await sql`SELECT * FROM t WHERE a > ${1}`;
    assert.deepEqual([String(row.a), row.b, row.c, row.e, row.f, row.g],
      ["9223372036854775810", "1.50", new Date(678), { a: [1] }, "zoë 😀", null]);
    assert.deepEqual([...row.d], [0, 255]);
  },
  async "what was written is read"(sql) {
    await sql`CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)`;
    for (let id = 1; id <= 20; id++) {
      const { affectedRows, lastInsertRowid } = await sql`INSERT INTO t (v) VALUES (${id})`;
      assert.deepEqual([affectedRows, lastInsertRowid], [1, id]);
      const [{ n }] = await sql`SELECT COUNT(*) AS n FROM t WHERE v <= ${id}`;
      assert.equal(n, id);
    }
  },
  async "sent at once: what was written is read"(sql) {
    await sql`CREATE TABLE t (v INT)`;
    await sql`INSERT INTO t VALUES (0)`;
    for (let v = 1; v <= 20; v++) {
      const [, read] = await Promise.all([sql`UPDATE t SET v = ${v}`, sql`SELECT v FROM t WHERE v < ${1000}`]);
      assert.equal(read[0].v, v);
    }
  },
  async "sent at once: many, and errors among them"(sql) {
    const all = Array.from({ length: 120 }, (_, k) => (k % 3 ? sql`SELECT ${k} + 0 AS k` : sql.unsafe(`SELECT * FROM absent${k}`)));
    const ended = await Promise.allSettled(all);
    ended.forEach((end, k) => assert.equal(end.status === "fulfilled" ? Number(end.value[0].k) : end.reason.errno, k % 3 ? k : 1146));
  },
  async "prepared: the table is another one now"(sql) {
    await sql`CREATE TABLE t (id INT)`;
    await sql`INSERT INTO t VALUES (1)`;
    for (const columns of [1, 2, 3]) {
      const [row] = await sql`SELECT * FROM t WHERE id = ${1}`;
      assert.equal(Object.keys(row).length, columns);
      await sql.unsafe(`ALTER TABLE t ADD COLUMN c${columns} INT`);
    }
  },
  async "a transaction, rolled back and committed"(sql) {
    await sql`CREATE TABLE t (id INT PRIMARY KEY)`;
    for (const seen of [0, 1]) {
      const transaction = sql.begin(async (inside) => {
        await inside`INSERT INTO t VALUES (${1})`;
        await inside.savepoint(async (nested) => await nested`UPDATE t SET id = 2`);
        if (!seen) throw new Error("rolled back");
      });
      await transaction.catch((error) => assert.equal(error.message, "rolled back"));
      const [{ n }] = await sql`SELECT COUNT(*) AS n FROM t WHERE id = 2`;
      assert.equal(n, seen);
    }
  },
  async "a READ ONLY transaction"(sql) {
    await sql`CREATE TABLE t (id INT PRIMARY KEY)`;
    const [{ n }] = await sql.begin("read only", (inside) => inside`SELECT COUNT(*) AS n FROM t`);
    assert.equal(n, 0);
    const refused = sql.begin("read only", (inside) => inside`INSERT INTO t VALUES (1)`);
    await assert.rejects(refused, { errno: 1792, sqlState: "25006" });
  },
  async "several statements in one text"(sql) {
    const results = await sql.unsafe("SELECT 1 AS a; SELECT 2 AS a");
    assert.deepEqual(results.map(([row]: { a: number }[]) => row.a), [1, 2]);
  },
  async "a procedure with several results"(sql) {
    await sql.unsafe("DROP PROCEDURE IF EXISTS twice");
    await sql.unsafe("CREATE PROCEDURE twice() BEGIN SELECT 1 AS a; SELECT 2 AS a; END");
    const results = await sql`CALL twice()`;
    assert.deepEqual([results[0][0].a, results[1][0].a], [1, 2]);
    assert.equal((await sql`SELECT 77 AS a`)[0].a, 77);
  },
  async "large values both ways"(sql) {
    await sql`CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)`;
    for (const size of [1_000_000, 16_777_215, 17_000_000]) {
      const value = "x".repeat(size);
      await sql`INSERT INTO t (v) VALUES (${value})`;
      const [{ v }] = await sql`SELECT v FROM t ORDER BY id DESC LIMIT 1`;
      assert.ok(v === value);
    }
  },
  async "an error, and what comes after it"(sql) {
    await assert.rejects(sql`SELECT * FROM absent WHERE id = ${1}`, { errno: 1146, sqlState: "42S02" });
    await assert.rejects(sql`SELEC 1`, { errno: 1064, sqlState: "42000" });
    assert.equal((await sql`SELECT 1 AS a`)[0].a, 1);
  },
};

for (const [name, check] of Object.entries(checks)) {
  const sql = connect();
  try {
    await sql`DROP TABLE IF EXISTS t`;
    await Promise.race([check(sql), Bun.sleep(60_000).then(() => assert.fail("no answer in a minute"))]);
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name} # ${String(error).replaceAll("\n", " ").slice(0, 500)}`);
  }
  await sql.close({ timeout: 0 });
}
console.log("end");
process.exit(0);
