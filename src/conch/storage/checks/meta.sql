-- What a store knows about itself. Each engine lists its keys.

-- check: meta
-- The epoch of the store in meta is damaged, so processes could miss that the store was replaced.
SELECT key, value FROM meta WHERE key = 'epoch' AND (length(value) <> 16 OR ltrim(value, '0123456789abcdef') <> '');
