-- name: store_facts
SELECT key, value FROM meta;

-- name: store_mark
PRAGMA user_version;

-- name: ensure_mark
INSERT OR IGNORE INTO meta (key, value) SELECT 'mark', CAST(user_version AS TEXT) FROM pragma_user_version;
