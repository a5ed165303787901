# Tcl's mysqltcl at a server, on MariaDB's Connector/C: the usual things.
# The argument: "TLS", "no TLS" or "compression". Writes what languages.py reads.
package require mysqltcl

proc connect {} {
    global env argv
    set way [dict create TLS {-ssl 1} "no TLS" {} compression {-compress 1}]
    mysql::connect -host $env(TIDEGATE_HOST) -port $env(TIDEGATE_PORT) -user $env(TIDEGATE_USER) \
        -password $env(TIDEGATE_PASSWORD) -db test -encoding utf-8 -multistatement 1 -multiresult 1 \
        {*}[dict get $way [lindex $argv 0]]
}

proc same {expected found} {
    if {$expected ne $found} { error "expected [string range $expected 0 300], found [string range $found 0 300]" }
}

proc value {db sql} { mysql::sel $db $sql -flatlist }

proc refused {db code sql} {
    if {![catch {mysql::sel $db $sql}]} { error "no error" }
    same $code $::mysqlstatus(code)
}

proc check {name body} {
    set failed [catch {
        set db [connect]
        mysql::exec $db "DROP TABLE IF EXISTS t"
        apply [list db $body] $db
        mysql::close $db
    } told]
    puts [expr {$failed ? "not ok $name # [string map {\n { }} $told]" : "ok $name"}]
}

check "values of every kind" {
    mysql::exec $db "CREATE TABLE t (a BIGINT UNSIGNED, b DECIMAL(10, 2), c DATETIME(6), d BLOB, e JSON, f TEXT CHARACTER SET utf8mb4)"
    mysql::exec $db "INSERT INTO t VALUES (18446744073709551615, 1.50, '2026-01-02 03:04:05.678901', x'3031', '\[1\]', 'zo\u00eb')"
    same {18446744073709551615 1.50 {2026-01-02 03:04:05.678901} 01 {[1]} zoë} [value $db "SELECT * FROM t"]
    mysql::exec $db "INSERT INTO t (b) VALUES (2)"
    same 1 [mysql::isnull [lindex [value $db "SELECT a FROM t WHERE b = 2"] 0]]
}

check "what was written is read" {
    mysql::exec $db "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)"
    for {set id 1} {$id <= 20} {incr id} {
        same 1 [mysql::exec $db "INSERT INTO t VALUES ()"]
        same $id [mysql::insertid $db]
        same $id [value $db "SELECT COUNT(*) FROM t"]
    }
}

check "a transaction, rolled back and committed" {
    mysql::exec $db "CREATE TABLE t (id INT PRIMARY KEY)"
    mysql::autocommit $db 0
    foreach {end seen} {rollback 0 commit 1} {
        mysql::exec $db "INSERT INTO t VALUES (1)"
        mysql::$end $db
        same $seen [value $db "SELECT COUNT(*) FROM t"]
    }
    mysql::autocommit $db 1
    same 1 [value $db "SELECT COUNT(*) FROM t"]
}

check "several statements in one text" {
    same {1 1} [list [mysql::sel $db "SELECT 1; SELECT 2"] [mysql::moreresult $db]]
    same {1 2} [list [mysql::nextresult $db] [mysql::fetch $db]]
    same 0 [mysql::moreresult $db]
}

check "rows as they are asked for" {
    set query [mysql::query $db "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) SELECT n FROM n"]
    set sum 0
    while {[llength [set row [mysql::fetch $query]]]} { incr sum $row }
    mysql::endquery $query
    same 500500 $sum
}

check "large values both ways" {
    mysql::exec $db "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)"
    foreach size {1000000 17000000} {
        set value [string repeat x $size]
        mysql::exec $db "INSERT INTO t (v) VALUES ('$value')"
        same $value [value $db "SELECT v FROM t ORDER BY id DESC LIMIT 1"]
    }
}

check "an error, and what comes after it" {
    refused $db 1146 "SELECT * FROM absent"
    refused $db 1064 "SELEC 1"
    same 1 [value $db "SELECT 1"]
}

check "another schema, another user and a ping" {
    mysql::use $db test2
    same test2 [value $db "SELECT DATABASE()"]
    mysql::changeuser $db $::env(TIDEGATE_USER) $::env(TIDEGATE_PASSWORD) test
    same test [value $db "SELECT DATABASE()"]
    same 1 [mysql::ping $db]
}

check "encryption is as asked for" {
    set cipher [lindex [value $db "SHOW SESSION STATUS LIKE 'Ssl_cipher'"] 1]
    if {[lindex $::argv 0] eq "TLS" && $cipher eq ""} { error "no TLS" }
}

puts end
