-- Write, then read it back: every event writes a new value into a row that only this thread
-- writes, reads that row in the same session, and counts an older value as a stale read.
--
-- At its end every thread prints one line for benchmarks/workload.py:
--   write_read reads=N stale=N microseconds=BUCKET:COUNT,BUCKET:COUNT,...
-- where BUCKET b holds the reads that took from 1.01^b to 1.01^(b+1) microseconds.

local ffi = require("ffi")
ffi.cdef [[
  typedef struct { long seconds; long nanoseconds; } tidegate_timespec;
  int clock_gettime(int clock, tidegate_timespec *time);
]]
local CLOCK_MONOTONIC = 1
local time = ffi.new("tidegate_timespec")
local LOG_STEP = math.log(1.01)

sysbench.cmdline.options = {
  rows = {"rows that each thread writes", 100},
  threads_prepared = {"threads that rows are prepared for", 64},
}

local function microseconds()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) * 1e6 + tonumber(time.nanoseconds) / 1e3
end

function prepare()
  local connection = sysbench.sql.driver():connect()
  connection:query("CREATE TABLE IF NOT EXISTS note (id INT PRIMARY KEY, value BIGINT NOT NULL)")
  local count = sysbench.opt.rows * sysbench.opt.threads_prepared
  connection:bulk_insert_init("REPLACE INTO note VALUES")
  for id = 0, count - 1 do
    connection:bulk_insert_next(string.format("(%d, 0)", id))
  end
  connection:bulk_insert_done()
end

function thread_init()
  connection = sysbench.sql.driver():connect()
  reads, stale, written, buckets = 0, 0, 0, {}
end

function event()
  -- begins at the microseconds since 1970, so that a value is newer than those of earlier runs
  if written == 0 then written = os.time() * 1000000 end
  written = written + 1
  local id = sysbench.tid * sysbench.opt.rows + written % sysbench.opt.rows
  connection:query(string.format("UPDATE note SET value = %d WHERE id = %d", written, id))
  local began = microseconds()
  local result = connection:query(string.format("SELECT value FROM note WHERE id = %d", id))
  local took = microseconds() - began
  local row = result:fetch_row()
  if row == nil or tonumber(row[1]) < written then stale = stale + 1 end
  result:free()
  reads = reads + 1
  local bucket = math.floor(math.log(math.max(took, 1)) / LOG_STEP)
  buckets[bucket] = (buckets[bucket] or 0) + 1
end

function thread_done()
  local counts = {}
  for bucket, count in pairs(buckets) do
    table.insert(counts, bucket .. ":" .. count)
  end
  print(string.format("write_read reads=%d stale=%d microseconds=%s",
    reads, stale, table.concat(counts, ",")))
  connection:disconnect()
end
