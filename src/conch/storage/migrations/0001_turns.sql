-- Agents and the signals that identify them; rooms, their members and their append-only log.

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE agents (
  agent_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  harness TEXT NOT NULL,
  session_kind TEXT NOT NULL,
  host_id TEXT,
  boot_id TEXT,
  pid BIGINT,
  process_started_at BIGINT,
  created_at BIGINT NOT NULL,
  last_seen_at BIGINT NOT NULL
);

CREATE TABLE agent_signals (
  signal TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  linked_at BIGINT NOT NULL
);

CREATE TABLE path_rooms (
  room_id TEXT PRIMARY KEY,
  canonical_path TEXT NOT NULL,
  topic_id TEXT NOT NULL UNIQUE,
  sequence_index BIGINT NOT NULL DEFAULT 0,
  owner TEXT,
  reserved_for TEXT,
  pending_handoff_event_seq BIGINT,
  turn_id BIGINT NOT NULL DEFAULT 0,
  lease_id TEXT,
  lease_expires_at BIGINT,
  claim_expires_at BIGINT,
  state TEXT NOT NULL,
  policy_json TEXT NOT NULL DEFAULT '{}',
  last_event_seq BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CHECK (state IN ('idle', 'owned', 'reserved', 'closed')),
  CHECK ((state = 'owned') = (owner IS NOT NULL)),
  CHECK ((state = 'reserved') = (reserved_for IS NOT NULL)),
  CHECK ((owner IS NULL) = (lease_id IS NULL))
);

-- A path has at most one open room. A closed room stays readable beside its successor.
CREATE UNIQUE INDEX path_rooms_open_path_idx ON path_rooms (canonical_path) WHERE state <> 'closed';

CREATE TABLE room_members (
  room_id TEXT NOT NULL REFERENCES path_rooms (room_id),
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  ordinal BIGINT NOT NULL,
  joined_at BIGINT NOT NULL,
  host_id TEXT,
  boot_id TEXT,
  pid BIGINT,
  process_started_at BIGINT,
  session_kind TEXT NOT NULL,
  display_name TEXT,
  PRIMARY KEY (room_id, agent_id)
);

CREATE INDEX room_members_agent_idx ON room_members (agent_id);

CREATE TABLE room_events (
  event_seq $serial_key,
  event_id TEXT NOT NULL UNIQUE,
  room_id TEXT NOT NULL REFERENCES path_rooms (room_id),
  turn_id BIGINT NOT NULL,
  event_type TEXT NOT NULL,
  from_agent_id TEXT,
  to_agent_id TEXT,
  handoff_json TEXT,
  reason TEXT,
  details_json TEXT,
  created_at BIGINT NOT NULL
);

CREATE INDEX room_events_room_seq_idx ON room_events (room_id, event_seq);
CREATE INDEX room_events_room_turn_idx ON room_events (room_id, turn_id);
