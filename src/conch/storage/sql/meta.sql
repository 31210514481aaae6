-- name: schema_version
SELECT value FROM meta WHERE key = 'schema_version';

-- name: set_schema_version
INSERT INTO meta (key, value) VALUES ('schema_version', :version)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: ensure_epoch
INSERT INTO meta (key, value) VALUES ('epoch', :epoch) ON CONFLICT (key) DO NOTHING;

-- name: set_epoch
INSERT INTO meta (key, value) VALUES ('epoch', :epoch)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
