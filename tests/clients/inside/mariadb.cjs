// MariaDB's connector for Node at a server, at its default settings and with TLS and compression.
// Writes what tidegate_recording.py writes. NODE_PATH says where the connector is.
'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const mariadb = require('mariadb');

const address = {
  host: process.env.TIDEGATE_HOST,
  port: Number(process.env.TIDEGATE_PORT),
  user: process.env.TIDEGATE_USER,
  password: process.env.TIDEGATE_PASSWORD,
  database: 'test',
  multipleStatements: true,
};

const checks = {
  async 'what was written is read'(connection) {
    await connection.query('CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)');
    const inserted = await connection.query("INSERT INTO t (v) VALUES ('ä'), (?)", ['b']);
    assert.equal(inserted.affectedRows, 2);
    const rows = await connection.query('SELECT v FROM t ORDER BY id');
    assert.deepEqual(rows.map((row) => row.v), ['ä', 'b']);
  },
  async 'prepared: what was written is read'(connection) {
    await connection.query('CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(10, 2))');
    for (let id = 0; id < 20; id++) {
      await connection.execute('INSERT INTO t VALUES (?, ?)', [id, '1.50']);
      const rows = await connection.execute('SELECT COUNT(*) AS n FROM t WHERE id <= ?', [id]);
      assert.equal(Number(rows[0].n), id + 1);
    }
  },
  async 'a batch'(connection) {
    await connection.query('CREATE TABLE t (id INT PRIMARY KEY)');
    await connection.batch('INSERT INTO t VALUES (?)', [[1], [2], [3]]);
    const rows = await connection.query('SELECT COUNT(*) AS n FROM t');
    assert.equal(Number(rows[0].n), 3);
  },
  async 'a transaction, rolled back and committed'(connection) {
    await connection.query('CREATE TABLE t (id INT PRIMARY KEY)');
    for (const [end, seen] of [['rollback', 0], ['commit', 1]]) {
      await connection.beginTransaction();
      await connection.query('INSERT INTO t VALUES (?)', [1]);
      await connection[end]();
      const rows = await connection.query('SELECT COUNT(*) AS n FROM t');
      assert.equal(Number(rows[0].n), seen);
    }
  },
  async 'large values both ways'(connection) {
    const value = 'x'.repeat(3_000_000) + Array.from({ length: 50_000 }, (_, k) => k).join();
    await connection.query('CREATE TABLE t (v LONGTEXT)');
    await connection.query('INSERT INTO t VALUES (?)', [value]);
    const rows = await connection.query('SELECT v FROM t');
    assert.equal(rows[0].v, value);
  },
  async 'rows as a stream'(connection) {
    const sql = 'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n';
    let sum = 0;
    for await (const row of connection.queryStream(sql)) sum += Number(row.n);
    assert.equal(sum, 500_500);
  },
  async 'an error, and what comes after it'(connection) {
    await assert.rejects(connection.query('SELECT * FROM absent'), { errno: 1146, sqlState: '42S02' });
    const rows = await connection.query('SELECT 1 AS one');
    assert.equal(Number(rows[0].one), 1);
  },
  async 'a reset and a ping'(connection) {
    await connection.query('SET @kept = 1');
    await connection.reset();
    await connection.ping();
    const rows = await connection.query('SELECT @kept AS kept');
    assert.equal(rows[0].kept, null);
  },
};

const encrypted = { ssl: { rejectUnauthorized: false } };
// The first logs in over TLS, as somebody must before the defaults work at a server.
const ways = {
  'TLS': encrypted,
  'defaults': {},
  'compression': { compress: true },
  'TLS, compression': { ...encrypted, compress: true },
};

async function main() {
  for (const [way, options] of Object.entries(ways)) {
    for (const [name, check] of Object.entries(checks)) {
      const result = { id: `${way}: ${name}`, outcome: 'passed', told: '' };
      let connection;
      try {
        connection = await mariadb.createConnection({ ...address, ...options });
        await connection.query('DROP TABLE IF EXISTS t');
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

main();
