-- One query, 10,000 rows of two short columns.

function thread_init()
  connection = sysbench.sql.driver():connect()
end

function event()
  local result = connection:query("SELECT id, k FROM sbtest1 LIMIT 10000")
  result:free()
end

function thread_done()
  connection:disconnect()
end
