-- What is left of pruned rows: the number of the last pruned message of a topic, and what the pruned events of a room
-- had led to.

ALTER TABLE topic_seq ADD COLUMN pruned_seq BIGINT NOT NULL DEFAULT 0;

CREATE TABLE room_checkpoints (
  room_id TEXT PRIMARY KEY REFERENCES path_rooms (room_id),
  event_seq BIGINT NOT NULL,
  replay_json TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE INDEX room_activity_subject_idx ON room_activity (subject_id) WHERE subject_id IS NOT NULL;
