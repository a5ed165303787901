-- Runs after accounts.sql on a replica's first start. Replication itself begins when the server
-- starts for good.
RESET BINARY LOGS AND GTIDS;

CHANGE REPLICATION SOURCE TO
  SOURCE_HOST = 'primary',
  SOURCE_USER = 'replicator',
  SOURCE_PASSWORD = 'replicator-demo',
  SOURCE_AUTO_POSITION = 1,
  GET_SOURCE_PUBLIC_KEY = 1,
  SOURCE_CONNECT_RETRY = 1,
  SOURCE_RETRY_COUNT = 1000000,
  SOURCE_HEARTBEAT_PERIOD = 1;

-- Not on the command line: the first start could not make the accounts then.
SET PERSIST read_only = ON;
SET PERSIST super_read_only = ON;
