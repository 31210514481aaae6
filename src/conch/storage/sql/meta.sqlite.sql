-- name: store_facts
SELECT
  (SELECT value FROM meta WHERE key = 'schema_version') AS version,
  (SELECT value FROM meta WHERE key = 'epoch') AS epoch,
  (SELECT value FROM meta WHERE key = 'mark') AS start,
  (SELECT user_version FROM pragma_user_version) AS mark;

-- name: ensure_mark
INSERT OR IGNORE INTO meta (key, value) SELECT 'mark', CAST(user_version AS TEXT) FROM pragma_user_version;
