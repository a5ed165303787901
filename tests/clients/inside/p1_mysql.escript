#!/usr/bin/env escript
%% Erlang's p1_mysql at a server: the usual things. The argument: "TLS" or "no TLS".
%% Writes what languages.py reads.

-mode(compile).

main([Way]) ->
    put(way, Way),
    [check(Name, Check) || {Name, Check} <- checks()],
    io:format("end~n").

checks() ->
    [{"values of every kind", fun values/1},
     {"what was written is read", fun written/1},
     {"a transaction, rolled back and committed", fun transaction/1},
     {"an error, and what comes after it", fun refused/1},
     {"large values both ways", fun large/1}].

check(Name, Check) ->
    try
        Connection = connect(),
        ask(Connection, "DROP TABLE IF EXISTS t"),
        Check(Connection),
        p1_mysql_conn:stop(Connection),
        io:format("ok ~s~n", [Name])
    catch
        _:Reason -> io:format("not ok ~s # ~0P~n", [Name, Reason, 40])
    end.

connect() ->
    Setting = fun(Name) -> os:getenv("TIDEGATE_" ++ Name) end,
    Silent = fun(_, _, _) -> ok end,
    Options = case get(way) of
        "TLS" -> {ok, _} = application:ensure_all_started(ssl), [{ssl, true}, {verify, verify_none}];
        "no TLS" -> []
    end,
    {ok, Connection} = p1_mysql_conn:start(
        Setting("HOST"), list_to_integer(Setting("PORT")), Setting("USER"), Setting("PASSWORD"),
        "test", 30000, Silent, Options),
    Connection.

%% The rows, or how many the statement changed.
ask(Connection, Sql) ->
    case p1_mysql_conn:squery(Connection, Sql, self(), [{timeout, 60000}, {result_type, binary}]) of
        {data, Result} -> p1_mysql:get_result_rows(Result);
        {updated, Result} -> p1_mysql:get_result_affected_rows(Result);
        {error, Result} -> throw({refused, p1_mysql:get_result_reason(Result)})
    end.

values(Connection) ->
    ask(Connection, "SET NAMES utf8mb4"),
    ask(Connection, "CREATE TABLE t (a BIGINT UNSIGNED, b DECIMAL(10, 2), c DATETIME(6), d BLOB, e TEXT)"),
    ask(Connection, <<"INSERT INTO t VALUES (18446744073709551615, 1.50, '2026-01-02 03:04:05.678901', x'00ff', '",
                      "zoë 😀"/utf8, "')">>),
    [[<<"18446744073709551615">>, <<"1.50">>, <<"2026-01-02 03:04:05.678901">>, <<0, 255>>,
      <<"zoë 😀"/utf8>>, null]] = ask(Connection, "SELECT t.*, NULL FROM t").

written(Connection) ->
    ask(Connection, "CREATE TABLE t (id INT PRIMARY KEY)"),
    [begin
         1 = ask(Connection, ["INSERT INTO t VALUES (", integer_to_list(N), ")"]),
         Count = integer_to_binary(N),
         [[Count]] = ask(Connection, "SELECT COUNT(*) FROM t")
     end || N <- lists:seq(1, 20)].

transaction(Connection) ->
    ask(Connection, "CREATE TABLE t (id INT PRIMARY KEY)"),
    [begin
         ask(Connection, "BEGIN"),
         1 = ask(Connection, "INSERT INTO t VALUES (1)"),
         ask(Connection, End),
         [[Seen]] = ask(Connection, "SELECT COUNT(*) FROM t")
     end || {End, Seen} <- [{"ROLLBACK", <<"0">>}, {"COMMIT", <<"1">>}]].

refused(Connection) ->
    {refused, "#42S02Table 'test.absent' doesn't exist"} = (catch ask(Connection, "SELECT * FROM absent")),
    {refused, "#42000" ++ _} = (catch ask(Connection, "SELEC 1")),
    [[<<"1">>]] = ask(Connection, "SELECT 1").

%% The driver cuts what is longer than a packet.
large(Connection) ->
    Value = binary:copy(<<"0123456789">>, 1000000),
    ask(Connection, "CREATE TABLE t (v LONGBLOB)"),
    1 = ask(Connection, ["INSERT INTO t VALUES ('", Value, "')"]),
    [[Value]] = ask(Connection, "SELECT v FROM t").
