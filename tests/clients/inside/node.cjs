// A driver of Node's (the argument: mysql2 or mariadb) at a server: the usual things, by each of the ways in.
// Writes what tidegate_recording.py writes. NODE_PATH says where the driver is.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');

const address = {
  host: process.env.TIDEGATE_HOST,
  port: Number(process.env.TIDEGATE_PORT),
  user: process.env.TIDEGATE_USER,
  password: process.env.TIDEGATE_PASSWORD,
  database: 'test',
  multipleStatements: true,
};
const plain = { 'no TLS': {} };
const encrypted = { TLS: { ssl: { rejectUnauthorized: false } } };

// How each is asked, and what it answers. `login`: its ways to log in, in this order.
const drivers = {
  mysql2: {
    module: 'mysql2/promise',
    login: { ...plain, ...encrypted },
    options: {},
    result: ([rows]) => rows,
    stream: (connection, sql) => connection.connection.query(sql).stream(),
    batch: (connection, sql, rows) => connection.query(sql.replace('(?)', '?'), [rows]),
    enter: (connection, database) => connection.changeUser({ database }),
    compressed: (connection) => Boolean(connection.connection.config.compress), // what was agreed on
  },
  mariadb: {
    module: 'mariadb',
    login: { ...encrypted, ...plain }, // without TLS and a key: as somebody's digest is known
    options: { bigIntAsNumber: true, insertIdAsNumber: true },
    result: (rows) => rows,
    stream: (connection, sql) => connection.queryStream(sql),
    batch: (connection, sql, rows) => connection.batch(sql, rows),
    enter: async (connection, database) => { // it refuses to change users at a MySQL
      await connection.reset();
      await connection.query(`USE ${database}`);
    },
  },
};
const driver = drivers[process.argv[2]];
const { createConnection } = require(driver.module);
const query = async (connection, ...asked) => driver.result(await connection.query(...asked));
const execute = async (connection, ...asked) => driver.result(await connection.execute(...asked));

const checks = {
  async 'what was written is read'(connection) {
    await query(connection, 'CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)');
    const inserted = await query(connection, "INSERT INTO t (v) VALUES ('ä'), (?)", ['b']);
    assert.equal(inserted.affectedRows, 2);
    assert.equal(inserted.insertId, 1);
    const rows = await query(connection, 'SELECT v FROM t ORDER BY id');
    assert.deepEqual(rows.map((row) => row.v), ['ä', 'b']);
  },
  async 'prepared: what was written is read'(connection) {
    await execute(connection, 'CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(10, 2), d DATETIME(6))');
    for (let id = 0; id < 20; id++) {
      await execute(connection, 'INSERT INTO t VALUES (?, ?, ?)', [id, '1.50', new Date(0)]);
      const sql = 'SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE id <= ?';
      const [row] = await execute(connection, sql, [id]);
      assert.deepEqual({ ...row }, { n: id + 1, s: ((id + 1) * 1.5).toFixed(2) });
    }
  },
  async 'a batch'(connection) {
    await query(connection, 'CREATE TABLE t (id INT PRIMARY KEY)');
    await driver.batch(connection, 'INSERT INTO t VALUES (?)', [[1], [2], [3]]);
    const [{ n }] = await query(connection, 'SELECT COUNT(*) AS n FROM t');
    assert.equal(n, 3);
  },
  async 'a transaction, rolled back and committed'(connection) {
    await query(connection, 'CREATE TABLE t (id INT PRIMARY KEY)');
    for (const [end, seen] of [['rollback', 0], ['commit', 1]]) {
      await connection.beginTransaction();
      await execute(connection, 'INSERT INTO t VALUES (?)', [1]);
      await connection[end]();
      const [{ n }] = await query(connection, 'SELECT COUNT(*) AS n FROM t');
      assert.equal(n, seen);
    }
  },
  async 'several statements in one text'(connection) {
    const results = await query(connection, 'SELECT 1 AS a; SELECT 2 AS a');
    assert.deepEqual(results.map(([row]) => row.a), [1, 2]);
  },
  async 'large values both ways'(connection) {
    const value = 'x'.repeat(3_000_000) + Array.from({ length: 50_000 }, (_, k) => k).join();
    await query(connection, 'CREATE TABLE t (v LONGTEXT)');
    await query(connection, 'INSERT INTO t VALUES (?)', [value]);
    for (const way of [query, execute]) {
      const [{ v }] = await way(connection, 'SELECT v FROM t');
      assert.equal(v, value);
    }
  },
  async 'rows as a stream'(connection) {
    const sql = 'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n';
    let sum = 0;
    for await (const row of driver.stream(connection, sql)) sum += row.n;
    assert.equal(sum, 500_500);
  },
  async 'an error, and what comes after it'(connection) {
    for (const way of [query, execute]) {
      await assert.rejects(way(connection, 'SELECT * FROM absent'), { errno: 1146, sqlState: '42S02' });
    }
    const [{ one }] = await query(connection, 'SELECT 1 AS one');
    assert.equal(one, 1);
  },
  async 'a session made anew in another schema, and a reset'(connection) {
    const seen = async () => ({ ...(await query(connection, 'SELECT DATABASE() AS db, @kept AS kept'))[0] });
    await query(connection, 'SET @kept = 1');
    await driver.enter(connection, 'test2');
    assert.deepEqual(await seen(), { db: 'test2', kept: null });
    await query(connection, 'SET @kept = 1');
    await connection.reset();
    await connection.ping();
    assert.equal((await seen()).kept, null);
  },
};

async function outcome(options, check) {
  let connection;
  try {
    connection = await createConnection({ ...address, ...driver.options, ...options });
    await connection.query('DROP TABLE IF EXISTS t');
    if (driver.compressed) assert.equal(driver.compressed(connection), options.compress, 'compression is as asked for');
    await check(connection);
    return { outcome: 'passed', detail: '' };
  } catch (error) {
    return { outcome: 'failed', detail: String(error.stack) };
  } finally {
    if (connection) connection.destroy();
  }
}

async function main() {
  for (const [login, options] of Object.entries(driver.login)) {
    for (const compress of [false, true]) {
      const way = `${login}, ${compress ? 'compression' : 'no compression'}`;
      for (const [name, check] of Object.entries(checks)) {
        const result = { id: `${way}: ${name}`, ...(await outcome({ ...options, compress }, check)) };
        fs.appendFileSync(process.env.TIDEGATE_RECORD, `${JSON.stringify(result)}\n`);
      }
    }
  }
}

main();
