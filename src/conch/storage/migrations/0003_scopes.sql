-- Registrations, reservations, protocol events, and the record of changes to them.

CREATE TABLE registrations (
  room_id TEXT NOT NULL REFERENCES path_rooms (room_id),
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  role TEXT,
  registered_at BIGINT NOT NULL,
  PRIMARY KEY (room_id, agent_id)
);

-- A key is the path between slashes. The prefixes of a key are its ancestors, and the keys inside it are one range.
CREATE TABLE reservations (
  number $serial_key,
  reservation_id TEXT NOT NULL UNIQUE,
  room_id TEXT NOT NULL REFERENCES path_rooms (room_id),
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  scope TEXT NOT NULL,
  scope_key TEXT NOT NULL,
  bead_id TEXT,
  state TEXT NOT NULL DEFAULT 'active',
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ended_at BIGINT,
  CHECK (state IN ('active', 'released', 'expired')),
  CHECK ((state = 'active') = (ended_at IS NULL))
);

CREATE UNIQUE INDEX reservations_active_scope_idx ON reservations (room_id, scope_key) WHERE state = 'active';
CREATE INDEX reservations_ended_idx ON reservations (room_id, number) WHERE state <> 'active';

CREATE TABLE protocol_events (
  number $serial_key,
  event_id TEXT NOT NULL UNIQUE,
  room_id TEXT NOT NULL REFERENCES path_rooms (room_id),
  event_type TEXT NOT NULL,
  bead_id TEXT,
  from_agent_id TEXT,
  from_agent TEXT,
  to_agent_id TEXT,
  to_agent TEXT,
  scope TEXT,
  payload_json TEXT NOT NULL,
  handoff_event_seq BIGINT,
  state TEXT NOT NULL DEFAULT 'unread',
  created_at BIGINT NOT NULL,
  seen_at BIGINT,
  accepted_at BIGINT,
  CHECK (event_type IN ('HANDOFF', 'BLOCKED', 'INCURSION', 'RESUME')),
  CHECK (state IN ('unread', 'seen', 'accepted'))
);

CREATE INDEX protocol_events_inbox_idx ON protocol_events (to_agent_id, room_id, number);
-- Finds the notice that went with a released or passed stick.
CREATE UNIQUE INDEX protocol_events_handoff_idx ON protocol_events (handoff_event_seq)
WHERE handoff_event_seq IS NOT NULL;

-- Changes to names, reservations and protocol events, append-only, for the room's timeline.
CREATE TABLE room_activity (
  number $serial_key,
  room_id TEXT NOT NULL REFERENCES path_rooms (room_id),
  kind TEXT NOT NULL,
  agent_id TEXT,
  agent_name TEXT,
  subject_id TEXT,
  details_json TEXT,
  created_at BIGINT NOT NULL
);

CREATE INDEX room_activity_room_idx ON room_activity (room_id, number);
