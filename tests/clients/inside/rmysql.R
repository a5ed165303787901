# R's RMySQL at a server, on MariaDB's Connector/C: the usual things. Writes what languages.py reads.
library(RMySQL, quietly = TRUE)
options(warn = -1)

connect <- function() {
  dbConnect(MySQL(),
    host = Sys.getenv("TIDEGATE_HOST"), port = as.integer(Sys.getenv("TIDEGATE_PORT")),
    user = Sys.getenv("TIDEGATE_USER"), password = Sys.getenv("TIDEGATE_PASSWORD"),
    dbname = "test", client.flag = CLIENT_MULTI_STATEMENTS
  )
}

same <- function(expected, found) {
  if (!isTRUE(all.equal(expected, found))) {
    stop(paste(c("expected", format(expected), "found", format(found)), collapse = " "))
  }
}

value <- function(connection, sql) dbGetQuery(connection, sql)[[1]]

check <- function(name, body) {
  told <- tryCatch(
    {
      connection <- connect()
      dbExecute(connection, "DROP TABLE IF EXISTS t")
      body(connection)
      dbDisconnect(connection)
      ""
    },
    error = function(error) paste0(" # ", gsub("\n", " ", conditionMessage(error)))
  )
  cat(if (told == "") "ok " else "not ok ", name, told, "\n", sep = "")
}

check("values of every kind", function(c) {
  dbExecute(c, "SET NAMES utf8mb4")
  dbExecute(c, "CREATE TABLE t (a BIGINT, b DECIMAL(10, 2), c DATETIME(6), d TEXT CHARACTER SET utf8mb4, e INT)")
  dbExecute(c, "INSERT INTO t VALUES (4503599627370497, 1.50, '2026-01-02 03:04:05.678901', 'zoë 😀', NULL)")
  row <- dbGetQuery(c, "SELECT * FROM t")
  same(c(4503599627370497, 1.5), c(row$a, row$b))
  same(c("2026-01-02 03:04:05.678901", "zoë 😀"), c(row$c, row$d))
  same(TRUE, is.na(row$e))
})

check("a table that is written and read", function(c) {
  table <- data.frame(a = 1:2000, b = paste0("r", 1:2000), d = (1:2000) / 7)
  dbWriteTable(c, "t", table, row.names = FALSE)
  same(table, dbReadTable(c, "t"))
  dbWriteTable(c, "t", table, append = TRUE, row.names = FALSE)
  same(4000, value(c, "SELECT COUNT(*) FROM t"))
  same(c("a", "b", "d"), dbListFields(c, "t"))
})

check("what was written is read", function(c) {
  dbExecute(c, "CREATE TABLE t (id INT PRIMARY KEY)")
  for (id in 1:20) {
    same(1, dbExecute(c, paste0("INSERT INTO t VALUES (", id, ")")))
    same(id, value(c, "SELECT COUNT(*) FROM t"))
  }
})

check("a transaction, rolled back and committed", function(c) {
  dbExecute(c, "CREATE TABLE t (id INT PRIMARY KEY)")
  for (seen in 0:1) {
    dbBegin(c)
    dbExecute(c, "INSERT INTO t VALUES (1)")
    if (seen) dbCommit(c) else dbRollback(c)
    same(seen, value(c, "SELECT COUNT(*) FROM t"))
  }
})

check("several statements in one text", function(c) {
  result <- dbSendQuery(c, "SELECT 1 AS a; SELECT 2 AS a")
  seen <- dbFetch(result)$a
  dbClearResult(result)
  while (dbMoreResults(c)) {
    result <- dbNextResult(c)
    seen <- c(seen, dbFetch(result)$a)
    dbClearResult(result)
  }
  same(c(1, 2), seen)
})

check("large values both ways", function(c) {
  dbExecute(c, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)")
  for (size in c(1e6, 17e6)) {
    large <- strrep("x", size)
    dbExecute(c, paste0("INSERT INTO t (v) VALUES ('", large, "')"))
    same(TRUE, value(c, "SELECT v FROM t ORDER BY id DESC LIMIT 1") == large)
  }
})

check("an error, and what comes after it", function(c) {
  told <- tryCatch(dbGetQuery(c, "SELECT * FROM absent"), error = function(error) "refused")
  same("refused", told)
  same(1146, dbGetException(c)$errorNum)
  same(1, value(c, "SELECT 1"))
})

cat("end\n")
