-- The whole current schema, for readers. The migrations create the stores; a test proves that both agree.

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
  last_seen_at BIGINT NOT NULL,
  is_timed BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE agent_signals (
  signal TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  linked_at BIGINT NOT NULL
);

-- The connections of MCP clients. `connection` is the process that serves it, `parent` the process above.
CREATE TABLE connections (
  connection TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  parent TEXT NOT NULL,
  client_name TEXT NOT NULL,
  host_id TEXT,
  boot_id TEXT,
  pid BIGINT,
  process_started_at BIGINT,
  opened_at BIGINT NOT NULL,
  closed_at BIGINT
);

CREATE INDEX connections_parent_idx ON connections (parent);
CREATE INDEX connections_agent_idx ON connections (agent_id);

-- What each name looks like (UTS #39), for the names of agents and topics and for agent_ids. A name stays listed after
-- its last use.
CREATE TABLE name_skeletons (
  skeleton TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (skeleton, name)
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
  name TEXT NOT NULL DEFAULT '',
  takes_turns BIGINT NOT NULL DEFAULT 1,
  is_gone BIGINT NOT NULL DEFAULT 0,
  waiting_since BIGINT,
  waited_at BIGINT,
  PRIMARY KEY (room_id, agent_id)
);

CREATE INDEX room_members_agent_idx ON room_members (agent_id);
-- A name is unique within a room. Another room can have another agent with the same name.
CREATE UNIQUE INDEX room_members_name_idx ON room_members (name, room_id);
-- The sequence of the members that are not known to be gone. In an old room, these are few.
CREATE INDEX room_members_sequence_idx ON room_members (room_id, is_gone, ordinal);

-- `previous_seq` is the event before this one in the room's log, even if that one has been pruned.
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
  created_at BIGINT NOT NULL,
  from_agent TEXT,
  to_agent TEXT,
  previous_seq BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX room_events_room_seq_idx ON room_events (room_id, event_seq);
CREATE INDEX room_events_room_turn_idx ON room_events (room_id, turn_id);
-- Finds the turns among notes and everything else.
CREATE INDEX room_events_turns_idx ON room_events (room_id, event_seq)
WHERE event_type IN ('claim', 'takeover', 'release', 'pass', 'return', 'kick', 'close');

-- What the pruned events of a room had led to: the room and its members after event `event_seq`, the last one pruned.
CREATE TABLE room_checkpoints (
  room_id TEXT PRIMARY KEY REFERENCES path_rooms (room_id),
  event_seq BIGINT NOT NULL,
  replay_json TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE topics (
  topic_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  status TEXT NOT NULL DEFAULT 'open',
  closed_at BIGINT,
  close_reason TEXT,
  metadata_json TEXT,
  mode TEXT NOT NULL DEFAULT 'reuse',
  CHECK (status IN ('open', 'closed')),
  CHECK (mode IN ('reuse', 'new', 'home')),
  CHECK ((status = 'closed') = (closed_at IS NOT NULL))
);

CREATE INDEX topics_name_status_created_at_idx ON topics (name, status, created_at);
CREATE INDEX topics_status_created_at_idx ON topics (status, created_at);

-- One open topic per name. Topics made with mode `new` are exempt, and so are home topics: their paths are unique.
CREATE UNIQUE INDEX topics_open_name_idx ON topics (name) WHERE status = 'open' AND mode = 'reuse';

-- `pruned_seq` is the last message that was pruned. The messages after it have no gaps.
CREATE TABLE topic_seq (
  topic_id TEXT PRIMARY KEY REFERENCES topics (topic_id),
  next_seq BIGINT NOT NULL DEFAULT 1,
  updated_at BIGINT NOT NULL,
  pruned_seq BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE peers (
  peer_id $serial_key,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  name TEXT NOT NULL,
  agent_id TEXT REFERENCES agents (agent_id),
  is_own BIGINT NOT NULL DEFAULT 0,
  reclaim_token_hash TEXT,
  created_at BIGINT NOT NULL,
  last_claimed_at BIGINT NOT NULL
);

CREATE INDEX peers_name_idx ON peers (name, topic_id);
CREATE INDEX peers_agent_idx ON peers (agent_id, topic_id);

-- An agent's own peer needs no token to read and write. An agent has at most one per topic.
CREATE UNIQUE INDEX peers_own_idx ON peers (agent_id, topic_id) WHERE is_own = 1;

-- Which peer a name means. This lists the current name of every peer and its former names.
CREATE TABLE agent_name_reservations (
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  agent_name TEXT NOT NULL,
  peer_id BIGINT NOT NULL REFERENCES peers (peer_id),
  PRIMARY KEY (agent_name, topic_id)
);

CREATE INDEX agent_name_reservations_peer_idx ON agent_name_reservations (peer_id);

-- A peer whose names were freed has no cursor: it can no longer read or write.
CREATE TABLE cursors (
  peer_id BIGINT PRIMARY KEY REFERENCES peers (peer_id),
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  last_seq BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL,
  resets BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX cursors_topic_updated_at_idx ON cursors (topic_id, updated_at);

CREATE TABLE messages (
  number $serial_key,
  message_id TEXT NOT NULL UNIQUE,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  seq BIGINT NOT NULL,
  message_type TEXT NOT NULL,
  reply_to TEXT,
  content_markdown TEXT NOT NULL,
  metadata_json TEXT,
  client_message_id TEXT,
  created_at BIGINT NOT NULL,
  sender_id BIGINT REFERENCES peers (peer_id),
  own_seq BIGINT NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX messages_topic_seq_idx ON messages (topic_id, seq);
CREATE UNIQUE INDEX messages_client_message_id_idx ON messages (topic_id, sender_id, client_message_id)
WHERE client_message_id IS NOT NULL;
CREATE INDEX messages_topic_reply_to_idx ON messages (topic_id, reply_to) WHERE reply_to IS NOT NULL;
-- Every reply to an agent with unread messages looks for those that ask it to hand over the stick. They are few.
CREATE INDEX messages_nudge_idx ON messages (message_type, topic_id, seq) WHERE message_type = 'nudge';
-- `own_seq` says which message of its sender a message is. Two of these numbers tell how many of the messages after a
-- cursor are a peer's own.
CREATE INDEX messages_sender_idx ON messages (sender_id, seq, own_seq);

-- The names in `metadata.to`, as they were written. A name may mean a peer that joins later.
CREATE TABLE message_addressees (
  addressee TEXT NOT NULL,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  seq BIGINT NOT NULL,
  sender_id BIGINT REFERENCES peers (peer_id),
  PRIMARY KEY (addressee, topic_id, seq)
);

-- Says whether a message is to anybody: its metadata may mention "to" in another place.
CREATE INDEX message_addressees_message_idx ON message_addressees (topic_id, seq);

-- A question is a message; this table has only its status.
CREATE TABLE questions (
  question_id TEXT PRIMARY KEY,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  asked_at BIGINT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  cancel_reason TEXT,
  asked_by_id BIGINT REFERENCES peers (peer_id),
  CHECK (status IN ('pending', 'answered', 'cancelled'))
);

CREATE INDEX questions_topic_status_asked_at_idx ON questions (topic_id, status, asked_at);

-- Which message is a peer's answer to a question. Each peer has at most one.
CREATE TABLE answers (
  question_id TEXT NOT NULL REFERENCES questions (question_id),
  answered_by_id BIGINT NOT NULL REFERENCES peers (peer_id),
  answer_id TEXT NOT NULL UNIQUE,
  answered_at BIGINT NOT NULL,
  PRIMARY KEY (question_id, answered_by_id)
);

CREATE INDEX answers_question_answered_at_idx ON answers (question_id, answered_at);

-- How far the search indexes have read each topic. All `index_` tables can be rebuilt from the messages.
CREATE TABLE index_progress (
  kind TEXT NOT NULL,
  topic_id TEXT NOT NULL,
  through_seq BIGINT NOT NULL,
  PRIMARY KEY (kind, topic_id)
);

CREATE TABLE index_vectors (
  model TEXT NOT NULL,
  number BIGINT NOT NULL,
  vector $bytes NOT NULL,
  PRIMARY KEY (model, number)
);

-- This is for SQLite; PostgreSQL has a table with a tsvector instead.
-- It holds words, not texts: the search decides what a word is, for all engines. The tokenizer only splits at spaces.
CREATE VIRTUAL TABLE index_words USING fts5 (
  words, content='', tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
);

-- The words of the index in order, to find those with a common prefix without reading their positions.
CREATE VIRTUAL TABLE index_vocabulary USING fts5vocab (index_words, instance);

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
  given TEXT,
  CHECK (state IN ('active', 'released', 'expired')),
  CHECK ((state = 'active') = (ended_at IS NULL))
);

CREATE UNIQUE INDEX reservations_active_scope_idx ON reservations (room_id, scope_key) WHERE state = 'active';
CREATE INDEX reservations_ended_idx ON reservations (room_id, number) WHERE state <> 'active';
-- Finds the work items of an agent that hands over, and everything about a work item.
CREATE INDEX reservations_working_idx ON reservations (agent_id, room_id, number)
WHERE state = 'active' AND bead_id IS NOT NULL;
CREATE INDEX reservations_bead_idx ON reservations (bead_id, room_id) WHERE bead_id IS NOT NULL;

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
  caused_by TEXT,
  priority BIGINT NOT NULL DEFAULT 1,
  times BIGINT NOT NULL DEFAULT 1,
  latest_at BIGINT,
  shown_at BIGINT,
  CHECK (event_type IN ('HANDOFF', 'BLOCKED', 'INCURSION', 'RESUME')),
  CHECK (state IN ('unread', 'seen', 'accepted'))
);

CREATE INDEX protocol_events_inbox_idx ON protocol_events (to_agent_id, room_id, state, priority, number);
-- Finds the notice that a new one repeats, and how many an agent has caused lately. Few notices have a cause.
CREATE INDEX protocol_events_unread_idx ON protocol_events (to_agent_id, caused_by, event_type, COALESCE(scope, ''))
WHERE caused_by IS NOT NULL AND state = 'unread';
CREATE INDEX protocol_events_cause_idx ON protocol_events (to_agent_id, caused_by, created_at)
WHERE caused_by IS NOT NULL;
-- Finds the notice that went with a released or passed stick.
CREATE UNIQUE INDEX protocol_events_handoff_idx ON protocol_events (handoff_event_seq)
WHERE handoff_event_seq IS NOT NULL;
CREATE INDEX protocol_events_bead_idx ON protocol_events (bead_id, room_id) WHERE bead_id IS NOT NULL;

-- Finds the newest notice that waits for an agent, in all rooms. One that must be accepted waits until it is.
CREATE INDEX protocol_events_mail_idx ON protocol_events (to_agent_id, number)
WHERE state = 'unread' OR (state = 'seen' AND payload_json LIKE '%"requires_ack": true%');
-- Finds the notices of a room that nobody has accepted. Most notices are accepted, so this index stays small.
CREATE INDEX protocol_events_open_idx ON protocol_events (room_id, number) WHERE state <> 'accepted';

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
-- Finds what was done with a reservation or a notice.
CREATE INDEX room_activity_subject_idx ON room_activity (subject_id) WHERE subject_id IS NOT NULL;

-- Waiting for everything at once.

-- Up to which message of a topic an agent was shown the messages to it (`to_you`, by hooks and listeners) and to all
-- (`all`, by listeners), and the last turn of a room that it knows it may take over (`takeover`).
CREATE TABLE marks (
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  kind TEXT NOT NULL,
  place TEXT NOT NULL,
  through BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (agent_id, kind, place),
  CHECK (kind IN ('all', 'takeover', 'to_you'))
);

-- The listener of each agent. It is dead if its process is gone or its time has expired.
CREATE TABLE listeners (
  agent_id TEXT PRIMARY KEY REFERENCES agents (agent_id),
  listener_id TEXT NOT NULL,
  host_id TEXT,
  boot_id TEXT,
  pid BIGINT,
  process_started_at BIGINT,
  started_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
