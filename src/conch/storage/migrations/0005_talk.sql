-- An agent's former name on a topic still means that agent, in messages from it and to it.
ALTER TABLE agent_name_reservations ADD COLUMN renamed_to TEXT;

-- Messages under this name up to this seq are from another agent that had the name before.
ALTER TABLE agent_name_reservations ADD COLUMN after_seq BIGINT NOT NULL DEFAULT 0;

CREATE INDEX agent_name_reservations_renamed_to_idx ON agent_name_reservations (topic_id, renamed_to)
WHERE renamed_to IS NOT NULL;

-- How often a cursor was reset by hand. A reply from before a reset then does not move the cursor.
ALTER TABLE cursors ADD COLUMN resets BIGINT NOT NULL DEFAULT 0;

-- The home topics of rooms that were closed before topics existed still lack the reason.
UPDATE topics SET close_reason = (
  SELECT max(e.reason) FROM room_events e JOIN path_rooms r ON r.room_id = e.room_id
  WHERE r.topic_id = topics.topic_id AND e.event_type = 'close'
)
WHERE mode = 'home' AND status = 'closed' AND close_reason IS NULL;

-- Emoji and other signs now count as words, so the indexes are rebuilt.
DELETE FROM index_progress WHERE kind = 'words';
