-- name: note_erased
-- The last numbers that were given. Their rows may be gone now, and `conch db verify` must not miss them.
INSERT INTO meta (key, value)
SELECT 'erased ' || name, CAST(seq AS TEXT) FROM sqlite_sequence
WHERE name IN ('messages', 'room_events', 'room_activity', 'protocol_events', 'reservations')
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
