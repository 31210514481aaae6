-- check: meta
-- The store has no {key} in meta.
SELECT wanted.key
FROM (SELECT 'schema_version' AS key UNION ALL SELECT 'application' UNION ALL SELECT 'epoch') wanted
LEFT JOIN meta m ON m.key = wanted.key WHERE m.key IS NULL;

-- check: meta
-- The key {key} in meta is not one of conch's.
SELECT key FROM meta WHERE key NOT IN ('schema_version', 'application', 'epoch', 'pruned_at');
