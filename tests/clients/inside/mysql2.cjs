// Node's mysql2 at a server: each of the ways in, and the usual things done there.
// Writes what tidegate_recording.py writes. NODE_PATH says where mysql2 is.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const mysql = require('mysql2/promise');

const address = {
  host: process.env.TIDEGATE_HOST,
  port: Number(process.env.TIDEGATE_PORT),
  user: process.env.TIDEGATE_USER,
  password: process.env.TIDEGATE_PASSWORD,
  database: 'test',
  multipleStatements: true,
};

const checks = {
  async 'text protocol: what was written is read'(connection) {
    await connection.query('CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)');
    const [inserted] = await connection.query("INSERT INTO t (v) VALUES ('ä'), (?)", ['b']);
    assert.equal(inserted.affectedRows, 2);
    assert.equal(inserted.insertId, 1);
    const [rows] = await connection.query('SELECT v FROM t ORDER BY id');
    assert.deepEqual(rows.map((row) => row.v), ['ä', 'b']);
  },
  async 'prepared statements: what was written is read'(connection) {
    await connection.execute('CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(10, 2), d DATETIME(6))');
    for (let id = 0; id < 20; id++) {
      await connection.execute('INSERT INTO t VALUES (?, ?, ?)', [id, '1.50', new Date(0)]);
      const [rows] = await connection.execute('SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE id <= ?', [id]);
      assert.deepEqual({ ...rows[0] }, { n: id + 1, s: ((id + 1) * 1.5).toFixed(2) });
    }
  },
  async 'a transaction, rolled back and committed'(connection) {
    await connection.query('CREATE TABLE t (id INT PRIMARY KEY)');
    for (const [end, seen] of [['rollback', 0], ['commit', 1]]) {
      await connection.beginTransaction();
      await connection.execute('INSERT INTO t VALUES (?)', [1]);
      await connection[end]();
      const [rows] = await connection.query('SELECT COUNT(*) AS n FROM t');
      assert.equal(rows[0].n, seen);
    }
  },
  async 'several statements in one text'(connection) {
    const [results] = await connection.query('SELECT 1 AS a; SELECT 2 AS a');
    assert.deepEqual(results.map(([row]) => row.a), [1, 2]);
  },
  async 'large values both ways'(connection) {
    const value = 'x'.repeat(3_000_000) + Array.from({ length: 50_000 }, (_, k) => k).join();
    await connection.query('CREATE TABLE t (v LONGTEXT)');
    await connection.query('INSERT INTO t VALUES (?)', [value]);
    for (const way of ['query', 'execute']) {
      const [rows] = await connection[way]('SELECT v FROM t');
      assert.equal(rows[0].v, value);
    }
  },
  async 'rows as a stream'(connection) {
    const sql = 'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n';
    let sum = 0;
    for await (const row of connection.connection.query(sql).stream()) sum += row.n;
    assert.equal(sum, 500_500);
  },
  async 'an error, and what comes after it'(connection) {
    await assert.rejects(connection.query('SELECT * FROM absent'), { errno: 1146, sqlState: '42S02' });
    await assert.rejects(connection.execute('SELECT * FROM absent'), { errno: 1146 });
    const [rows] = await connection.query('SELECT 1 AS one');
    assert.equal(rows[0].one, 1);
  },
  async 'another user, another schema and a reset'(connection) {
    await connection.query('SET @kept = 1');
    await connection.changeUser({ database: 'test2' });
    const [rows] = await connection.query('SELECT DATABASE() AS db, @kept AS kept');
    assert.deepEqual({ ...rows[0] }, { db: 'test2', kept: null });
    await connection.query('SET @kept = 1');
    if (connection.reset) await connection.reset();
    await connection.ping();
  },
};

async function main() {
  for (const ssl of [undefined, { rejectUnauthorized: false }]) {
    for (const compress of [false, true]) {
      const way = `${ssl ? 'TLS' : 'no TLS'}, ${compress ? 'compression' : 'no compression'}`;
      for (const [name, check] of Object.entries(checks)) {
        const result = { id: `${way}: ${name}`, outcome: 'passed', told: '' };
        let connection;
        try {
          connection = await mysql.createConnection({ ...address, ssl, compress });
          await connection.query('DROP TABLE IF EXISTS t');
          const compressed = Boolean(connection.connection.config.compress); // what was agreed on
          assert.equal(compressed, compress, 'compression is as asked for');
          await check(connection);
        } catch (error) {
          result.outcome = 'failed';
          result.told = String(error.stack);
        }
        if (connection) connection.destroy();
        fs.appendFileSync(process.env.TIDEGATE_RECORD, `${JSON.stringify(result)}\n`);
      }
    }
  }
}

main();
