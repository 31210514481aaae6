-- check: meta
-- The store has no {key} in meta.
SELECT wanted.key
FROM (SELECT 'schema_version' AS key UNION ALL SELECT 'application' UNION ALL SELECT 'epoch' UNION ALL SELECT 'mark') wanted
LEFT JOIN meta m ON m.key = wanted.key WHERE m.key IS NULL;

-- check: meta
-- The key {key} in meta is not one of conch's.
SELECT key FROM meta WHERE key NOT IN ('schema_version', 'application', 'epoch', 'mark', 'pruned_at', 'lost') AND key NOT LIKE 'erased %';

-- check: meta
-- Changes made before {value} are missing: the -wal beside the file was emptied, deleted or damaged, or the machine lost power. Restore a backup that has them. If there is none, back up what is left and restore that: this accepts the loss.
SELECT value FROM meta WHERE key = 'lost';

-- check: meta
-- The mark in the header of the file (PRAGMA user_version) is {found}, which does not follow the {mark} in meta.
SELECT p.user_version AS found, m.value AS mark
FROM pragma_user_version p JOIN meta m ON m.key = 'mark'
WHERE (p.user_version - CAST(m.value AS INTEGER) + 2147483647) % 2147483647 > 16777216
  OR m.value <> CAST(CAST(m.value AS INTEGER) AS TEXT);

-- check: meta
-- The application in meta is {value}, not conch.
SELECT value FROM meta WHERE key = 'application' AND value <> 'conch';

-- check: meta
-- The header of the file (PRAGMA application_id) says {found}, so it is not marked as conch's.
SELECT application_id AS found FROM pragma_application_id WHERE application_id <> 1668247139;
