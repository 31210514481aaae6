-- name: next_event
-- Taken before the event is written, so that everything that names the event can be written together with it.
SELECT nextval(pg_get_serial_sequence('room_events', 'event_seq')) AS event_seq;
