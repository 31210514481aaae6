-- name: engine_facts
SELECT 'PostgreSQL ' || current_setting('server_version') AS engine,
  pg_database_size(current_database()) AS size_bytes;
