#lang racket/base
;; Racket's db at a server: the usual things. It speaks the protocol itself, and asks for TLS by a
;; packet that holds its capabilities alone. The argument: "TLS" or "no TLS".
;; Writes what languages.py reads.
(require db racket/string)

(define way (vector-ref (current-command-line-arguments) 0))
(define (setting name) (getenv (string-append "TIDEGATE_" name)))
(define (connect)
  (mysql-connect #:server (setting "HOST")
                 #:port (string->number (setting "PORT"))
                 #:user (setting "USER")
                 #:password (setting "PASSWORD")
                 #:database "test"
                 #:ssl (if (equal? way "TLS") 'yes 'no)
                 #:allow-cleartext-password? (equal? way "TLS")))

(define (same expected found)
  (unless (equal? expected found) (error 'same "expected ~.s, found ~.s" expected found)))
(define (refused state run)
  (same state (with-handlers ([exn:fail:sql? exn:fail:sql-sqlstate]) (run) "none")))

(define (check name run)
  (with-handlers ([exn:fail? (lambda (told)
                               (printf "not ok ~a # ~a\n" name (string-replace (exn-message told) "\n" " ")))])
    (define connection (connect))
    (query-exec connection "DROP TABLE IF EXISTS t")
    (run connection)
    (disconnect connection)
    (printf "ok ~a\n" name)))

(check "values of every kind"
       (lambda (c)
         (query-exec c "CREATE TABLE t (a BIGINT UNSIGNED, b DECIMAL(10, 2), c DATETIME(6), d BLOB, e DOUBLE, f TEXT CHARACTER SET utf8mb4)")
         (define time (sql-timestamp 2026 1 2 3 4 5 678901000 #f))
         (query-exec c "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)" 7 3/2 time #"\0\377" 0.5 "zoë 😀")
         (query-exec c "INSERT INTO t (a) VALUES (?)" 8)
         (same (vector 7 3/2 time #"\0\377" 0.5 "zoë 😀") (query-row c "SELECT * FROM t WHERE a = ?" 7))
         (same #t (sql-null? (query-value c "SELECT b FROM t WHERE a = 8")))))

(check "prepared: what was written is read"
       (lambda (c)
         (query-exec c "CREATE TABLE t (id INT PRIMARY KEY)")
         (define insert (prepare c "INSERT INTO t VALUES (?)"))
         (define count (prepare c "SELECT COUNT(*) FROM t WHERE id <= ?"))
         (for ([id 20])
           (query-exec c insert id)
           (same (add1 id) (query-value c count id)))))

(check "prepared: the table is another one now"
       (lambda (c)
         (query-exec c "CREATE TABLE t (id INT PRIMARY KEY)")
         (query-exec c "INSERT INTO t VALUES (1)")
         (for ([columns '(1 2 3)])
           (same columns (vector-length (query-row c "SELECT * FROM t WHERE id = ?" 1)))
           (query-exec c (format "ALTER TABLE t ADD COLUMN c~a INT" columns)))))

(check "a transaction, rolled back and committed"
       (lambda (c)
         (query-exec c "CREATE TABLE t (id INT PRIMARY KEY)")
         (for ([end (list rollback-transaction commit-transaction)] [seen '(0 1)])
           (start-transaction c #:isolation 'repeatable-read)
           (query-exec c "INSERT INTO t VALUES (1)")
           (end c)
           (same seen (query-value c "SELECT COUNT(*) FROM t"))
           (same #f (in-transaction? c)))))

(check "a transaction in a transaction"
       (lambda (c)
         (query-exec c "CREATE TABLE t (id INT PRIMARY KEY)")
         (call-with-transaction c (lambda ()
           (query-exec c "INSERT INTO t VALUES (1)")
           (start-transaction c)
           (query-exec c "INSERT INTO t VALUES (2)")
           (rollback-transaction c)))
         (same '(1) (query-list c "SELECT id FROM t"))))

(check "an error, and what comes after it"
       (lambda (c)
         (refused "42S02" (lambda () (query c "SELECT * FROM absent")))
         (refused "42000" (lambda () (query c "SELEC 1")))
         (same 1 (query-value c "SELECT 1"))))

(check "rows by a cursor"
       (lambda (c)
         (define rows (prepare c "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n"))
         (same 500500 (for/sum ([n (in-query c rows #:fetch 10)]) n))))

(check "large values both ways"
       (lambda (c)
         (query-exec c "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)")
         (for ([size '(1000000 16777215 17000000)])
           (define value (make-bytes size 120))
           (query-exec c "INSERT INTO t (v) VALUES (?)" value)
           (same #t (equal? value (query-value c "SELECT v FROM t ORDER BY id DESC LIMIT 1"))))))

(displayln "end")
