-- What every server of the cluster has, made on each by itself: none of it may get a GTID, or the
-- servers' histories would differ before replication begins.
SET sql_log_bin = 0;

CREATE DATABASE app;
CREATE USER 'app'@'%' IDENTIFIED BY 'app-demo';
GRANT ALL ON app.* TO 'app'@'%';

-- Tidegate watches the servers with this account.
CREATE USER 'monitor'@'%' IDENTIFIED BY 'monitor-demo';
GRANT REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO 'monitor'@'%';
GRANT SELECT ON performance_schema.replication_applier_filters TO 'monitor'@'%';
GRANT SELECT ON performance_schema.replication_connection_status TO 'monitor'@'%';
GRANT SELECT ON performance_schema.replication_applier_status_by_worker TO 'monitor'@'%';
GRANT SELECT ON performance_schema.replication_applier_status_by_coordinator TO 'monitor'@'%';
GRANT SELECT ON performance_schema.replication_applier_configuration TO 'monitor'@'%';

CREATE USER 'replicator'@'%' IDENTIFIED BY 'replicator-demo';
GRANT REPLICATION SLAVE ON *.* TO 'replicator'@'%';

SET sql_log_bin = 1;
