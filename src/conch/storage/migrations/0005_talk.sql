-- A name that somebody had on a topic before another one stays its own there: messages from it, and to it.
ALTER TABLE agent_name_reservations ADD COLUMN renamed_to TEXT;

-- What was said up to here under a name, somebody said who had it before.
ALTER TABLE agent_name_reservations ADD COLUMN after_seq BIGINT NOT NULL DEFAULT 0;

CREATE INDEX agent_name_reservations_renamed_to_idx ON agent_name_reservations (topic_id, renamed_to)
WHERE renamed_to IS NOT NULL;

-- How often a cursor was set by hand: a reply that was on its way meanwhile does not move it on.
ALTER TABLE cursors ADD COLUMN resets BIGINT NOT NULL DEFAULT 0;

-- The home topics of rooms that were closed before there were topics have no reason yet.
UPDATE topics SET close_reason = (
  SELECT max(e.reason) FROM room_events e JOIN path_rooms r ON r.room_id = e.room_id
  WHERE r.topic_id = topics.topic_id AND e.event_type = 'close'
)
WHERE mode = 'home' AND status = 'closed' AND close_reason IS NULL;

-- Signs are words too by now: the indexes are made again.
DELETE FROM index_progress WHERE kind = 'words';
