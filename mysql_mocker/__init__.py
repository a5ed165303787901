"""A MySQL cluster in one process: a primary and GTID replicas that lag as they are told to.

    async with Cluster(replicas=2, apply_delay=0.3, accounts={"demo": "demo"}) as cluster:
        ...  # any MySQL client at cluster.primary.address, cluster.replicas[0].address

It speaks the classic protocol as MySQL 9.7 was measured to speak it: login with
caching_sha2_password with and without TLS, text and binary statements, session trackers, GTIDs in
OK packets under OFF, OWN_GTID and ALL_GTIDS (fact 2.2) with the ways to lose them (fact 2.3),
WAIT_FOR_EXECUTED_GTID_SET that waits (fact 4.1). SQL runs in SQLite, translated by sqlglot.

Where it is not MySQL:

* One transaction at a time writes on a server; a second writer waits, whatever rows it wants.
* A transaction's snapshot is renewed by its first write.
* SQLite's types, functions and expressions: DECIMAL is a float, text compares without case in
  ASCII only, integers have 63 bits, AVG and / have no fixed decimals, the time zone is UTC.
* Unknown to it: MyISAM, events, triggers, parameters of stored routines, multi-table UPDATE and
  DELETE, SELECT INTO, LOAD DATA, cursors (a statement that asks for one gets its rows at once),
  compression, COM_BINLOG_DUMP, privileges. LOCK TABLES is reported but does not lock.
* Replicas run the primary's statements again, with its clock and its random numbers; nothing is
  ever purged from the binary log.
* GTID texts that a server silently takes for an empty set (fact 3.1) are errors.
"""
