-- LuaSQL at a server, on MariaDB's Connector/C: the usual things. Writes what languages.py reads.
local driver = require('luasql.mysql').mysql()
local function setting(name) return os.getenv('TIDEGATE_' .. name) end

local function connect()
  return assert(driver:connect('test', setting('USER'), setting('PASSWORD'), setting('HOST'), tonumber(setting('PORT'))))
end

local function same(expected, found)
  if expected ~= found then error(('expected %s, found %s'):format(expected, found):sub(1, 500)) end
end

local function run(connection, sql) return assert(connection:execute(sql)) end

local function value(connection, sql)
  local cursor = run(connection, sql)
  local found = cursor:fetch()
  cursor:close()
  return found
end

local function refused(connection, told, sql)
  local found, message = connection:execute(sql)
  assert(found == nil and message:find(told, 1, true), message)
end

local function check(name, body)
  local fine, told = pcall(function()
    local connection = connect()
    run(connection, 'DROP TABLE IF EXISTS t')
    body(connection)
    assert(connection:close())
  end)
  print(fine and 'ok ' .. name or ('not ok %s # %s'):format(name, tostring(told):gsub('\n', ' ')))
end

check('values of every kind', function(connection)
  run(connection, 'SET NAMES utf8mb4')
  run(connection, 'CREATE TABLE t (a BIGINT UNSIGNED, b DECIMAL(10, 2), c DATETIME(6), d BLOB, e JSON, f TEXT, g INT)')
  run(connection, "INSERT INTO t VALUES (18446744073709551615, 1.50, '2026-01-02 03:04:05.678901', x'00ff', '[1]', 'zoë 😀', NULL)")
  local cursor = run(connection, 'SELECT * FROM t')
  local row = cursor:fetch({}, 'a')
  same('18446744073709551615 1.50 2026-01-02 03:04:05.678901 \0\xff [1] zoë 😀 nil',
    ('%s %s %s %s %s %s %s'):format(row.a, row.b, row.c, row.d, row.e, row.f, row.g))
  cursor:close()
end)

check('what was written is read', function(connection)
  run(connection, 'CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)')
  for id = 1, 20 do
    same(1, run(connection, 'INSERT INTO t VALUES ()'))
    same(id, connection:getlastautoid())
    same(tostring(id), value(connection, 'SELECT COUNT(*) FROM t'))
  end
end)

check('a transaction, rolled back and committed', function(connection)
  run(connection, 'CREATE TABLE t (id INT PRIMARY KEY)')
  connection:setautocommit(false)
  for _, step in ipairs({ { 'rollback', '0' }, { 'commit', '1' } }) do
    run(connection, 'INSERT INTO t VALUES (1)')
    connection[step[1]](connection)
    same(step[2], value(connection, 'SELECT COUNT(*) FROM t'))
  end
end)

check('large values both ways', function(connection)
  run(connection, 'CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)')
  for _, size in ipairs({ 1000000, 17000000 }) do
    local large = ('x'):rep(size)
    run(connection, "INSERT INTO t (v) VALUES ('" .. large .. "')")
    assert(value(connection, 'SELECT v FROM t ORDER BY id DESC LIMIT 1') == large)
  end
end)

check('an error, and what comes after it', function(connection)
  refused(connection, "Table 'test.absent' doesn't exist", 'SELECT * FROM absent')
  refused(connection, 'You have an error in your SQL syntax', 'SELEC 1')
  same('1', value(connection, 'SELECT 1'))
  assert(connection:ping())
end)

print('end')
