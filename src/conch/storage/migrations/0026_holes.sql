-- Each event names the one before it in its room's log, so that a hole in the log is found.

ALTER TABLE room_events ADD COLUMN previous_seq BIGINT NOT NULL DEFAULT 0;
UPDATE room_events SET previous_seq = COALESCE(
  (SELECT max(e.event_seq) FROM room_events e WHERE e.room_id = room_events.room_id AND e.event_seq < room_events.event_seq),
  (SELECT k.event_seq FROM room_checkpoints k WHERE k.room_id = room_events.room_id),
  0
);
