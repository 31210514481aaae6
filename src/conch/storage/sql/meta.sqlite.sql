-- name: store_facts
-- Rows get ever higher numbers, so the sum of the highest ones only grows.
SELECT
  (SELECT value FROM meta WHERE key = 'schema_version') AS version,
  (SELECT value FROM meta WHERE key = 'epoch') AS epoch,
  (SELECT COALESCE(sum(seq), 0) FROM sqlite_sequence) AS numbered;

-- name: renew_epoch
UPDATE meta SET value = :epoch WHERE key = 'epoch' AND value = :known;
