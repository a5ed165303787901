# Ruby's mysql2 at a server: the usual things, with and without TLS and compression.
# Writes what tidegate_recording.py writes.
require 'json'
require 'mysql2'

ADDRESS = {
  host: ENV.fetch('TIDEGATE_HOST'),
  port: ENV.fetch('TIDEGATE_PORT').to_i,
  username: ENV.fetch('TIDEGATE_USER'),
  password: ENV.fetch('TIDEGATE_PASSWORD'),
  database: 'test',
  encoding: 'utf8mb4',
  read_timeout: 60
}.freeze

def same(expected, found)
  raise "expected #{expected.inspect}, found #{found.inspect}"[0, 2000] unless expected == found
end

def refused(code, state)
  yield
rescue Mysql2::Error => e
  same([code, state], [e.error_number, e.sql_state])
else
  raise 'no error'
end

def value(client, sql)
  client.query(sql, as: :array).first&.first
end

CHECKS = {
  'what was written is read' => lambda { |client|
    client.query('CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)')
    client.query("INSERT INTO t (v) VALUES ('ä'), ('#{client.escape("it's")}')")
    same([2, 1], [client.affected_rows, client.last_id])
    same(['ä', "it's"], client.query('SELECT v FROM t ORDER BY id', symbolize_keys: true).map { |row| row[:v] })
  },
  'values of every kind' => lambda { |client|
    client.query('CREATE TABLE t (a TINYINT(1), b BIGINT UNSIGNED, c DECIMAL(10, 2), d DATETIME(6), e DATE, f TIME, g BLOB, h DOUBLE)')
    client.query("INSERT INTO t VALUES (1, 18446744073709551615, 1.50, '2026-01-02 03:04:05.678901', '2026-01-02', '10:20:30', x'00ff', 0.5)")
    row = client.query('SELECT * FROM t', as: :array, cast_booleans: true, database_timezone: :utc).first
    same([true, 2**64 - 1, BigDecimal('1.5'), Time.utc(2026, 1, 2, 3, 4, 5, 678_901)], row[0..3])
    same([Date.new(2026, 1, 2), "\x00\xFF".b, 0.5], [row[4], row[6], row[7]])
    same(row[0..3], client.prepare('SELECT * FROM t').execute(as: :array, cast_booleans: true, database_timezone: :utc).first[0..3])
  },
  'prepared: what was written is read' => lambda { |client|
    client.query('CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(10, 2))')
    insert = client.prepare('INSERT INTO t VALUES (?, ?)')
    sums = client.prepare('SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE id <= ?')
    20.times do |id|
      insert.execute(id, '1.50')
      same({ 'n' => id + 1, 's' => BigDecimal('1.5') * (id + 1) }, sums.execute(id).first)
    end
    [insert, sums].each(&:close)
  },
  'a transaction, rolled back and committed' => lambda { |client|
    client.query('CREATE TABLE t (id INT PRIMARY KEY)')
    [['ROLLBACK', 0], ['COMMIT', 1]].each do |ending, seen|
      client.query('BEGIN')
      client.query('INSERT INTO t VALUES (1)')
      client.query(ending)
      same(seen, value(client, 'SELECT COUNT(*) FROM t'))
    end
  },
  'a READ ONLY transaction' => lambda { |client|
    client.query('CREATE TABLE t (id INT PRIMARY KEY)')
    client.query('START TRANSACTION READ ONLY')
    same(0, value(client, 'SELECT COUNT(*) FROM t'))
    refused(1792, '25006') { client.query('INSERT INTO t VALUES (1)') }
    client.query('COMMIT')
  },
  'several statements in one text' => lambda { |client|
    seen = [client.query('SELECT 1 AS a; SELECT 2 AS a').to_a]
    seen << client.store_result.to_a while client.next_result
    same([[{ 'a' => 1 }], [{ 'a' => 2 }]], seen)
  },
  'a procedure with several results' => lambda { |client|
    client.query('DROP PROCEDURE IF EXISTS twice')
    client.query('CREATE PROCEDURE twice() BEGIN SELECT 1 AS a; SELECT 2 AS a; END')
    seen = [client.query('CALL twice()').first['a']]
    while client.next_result
      result = client.store_result
      seen << result.first['a'] if result
    end
    same([1, 2], seen)
    same(77, value(client, 'SELECT 77'))
  },
  'large values both ways' => lambda { |client|
    large = 'x' * 3_000_000 + (0...50_000).to_a.join(',')
    client.query('CREATE TABLE t (v LONGTEXT)')
    client.prepare('INSERT INTO t VALUES (?)').execute(large)
    same(true, value(client, 'SELECT v FROM t') == large)
    same(true, client.prepare('SELECT v FROM t').execute.first['v'] == large)
  },
  'rows as a stream' => lambda { |client|
    sql = 'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n'
    same(500_500, client.query(sql, stream: true, cache_rows: false).sum { |row| row['n'] })
    same(500_500, client.prepare(sql).execute(stream: true, cache_rows: false).sum { |row| row['n'] })
  },
  'asked now and fetched later' => lambda { |client|
    client.query('SELECT SLEEP(0.05), 7 AS n', async: true)
    IO.select([IO.for_fd(client.socket, autoclose: false)], nil, nil, 60) or raise 'no answer'
    same(7, client.async_result.first['n'])
  },
  'an error, and what comes after it' => lambda { |client|
    refused(1146, '42S02') { client.query('SELECT * FROM absent') }
    refused(1146, '42S02') { client.prepare('SELECT * FROM absent') }
    refused(1064, '42000') { client.query('SELEC 1') }
    same(1, value(client, 'SELECT 1'))
  },
  'another schema and a ping' => lambda { |client|
    client.select_db('test2')
    same('test2', value(client, 'SELECT DATABASE()'))
    same(true, client.ping)
    same('9', client.server_info[:version][0])
  },
  'encryption is as asked for' => lambda { |client|
    same(client.query_options[:ssl_mode] == :required, !client.ssl_cipher.nil?)
  }
}.freeze

{ 'no TLS' => {}, 'TLS' => { ssl_mode: :required, sslverify: false } }.each do |encryption, options|
  { 'no compression' => 0, 'compression' => Mysql2::Client::COMPRESS }.each do |compression, flag|
    CHECKS.each do |name, check|
      outcome = 'passed'
      detail = ''
      begin
        client = Mysql2::Client.new(**ADDRESS, **options, flags: flag | Mysql2::Client::MULTI_STATEMENTS)
        client.query('DROP TABLE IF EXISTS t')
        check.call(client)
      rescue StandardError => e
        outcome = 'failed'
        detail = e.full_message(highlight: false)
      ensure
        client&.close
      end
      result = { id: "#{encryption}, #{compression}: #{name}", outcome: outcome, detail: detail }
      File.write(ENV.fetch('TIDEGATE_RECORD'), "#{JSON.generate(result)}\n", mode: 'a')
    end
  end
end
