-- What MySQL Router 9.7 reads of InnoDB Cluster's metadata, for an asynchronous ReplicaSet of one
-- primary and two secondaries. The real schema is made by MySQL Shell; Router reads its version and
-- its public v2_* views, which are plain tables here.
CREATE DATABASE mysql_innodb_cluster_metadata;
USE mysql_innodb_cluster_metadata;

CREATE TABLE schema_version (major INT, minor INT, patch INT);
INSERT INTO schema_version VALUES (2, 2, 0);

CREATE TABLE v2_ar_clusters (cluster_id VARCHAR(36), cluster_name VARCHAR(36));
INSERT INTO v2_ar_clusters VALUES ('$cluster_id', 'bench');

CREATE TABLE v2_this_instance (cluster_id VARCHAR(36), cluster_type VARCHAR(2));
INSERT INTO v2_this_instance VALUES ('$cluster_id', 'ar');

CREATE TABLE v2_instances (
  instance_id INT, cluster_id VARCHAR(36), label VARCHAR(36),
  endpoint VARCHAR(36), xendpoint VARCHAR(36), attributes JSON);
INSERT INTO v2_instances VALUES
  (1, '$cluster_id', 'one', '$address_1', NULL, '{}'),
  (2, '$cluster_id', 'two', '$address_2', NULL, '{}'),
  (3, '$cluster_id', 'three', '$address_3', NULL, '{}');

CREATE TABLE v2_ar_members (
  cluster_id VARCHAR(36), view_id INT, instance_id INT,
  member_id VARCHAR(36), member_role VARCHAR(9));
INSERT INTO v2_ar_members VALUES
  ('$cluster_id', 1, 1, '$uuid_1', 'PRIMARY'),
  ('$cluster_id', 1, 2, '$uuid_2', 'SECONDARY'),
  ('$cluster_id', 1, 3, '$uuid_3', 'SECONDARY');

CREATE TABLE v2_routers (
  router_id INT, router_name VARCHAR(36), address VARCHAR(36), version VARCHAR(12),
  last_check_in TIMESTAMP NULL, attributes JSON, options JSON);
INSERT INTO v2_routers VALUES (1, 'bench', '127.0.0.1', '9.7.4', NULL, '{}', '{}');

CREATE TABLE v2_router_options (router_id INT, router_options JSON);
INSERT INTO v2_router_options VALUES (1, '{}');
