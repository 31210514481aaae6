-- name: next_event
SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'room_events'), 0) + 1 AS event_seq;
