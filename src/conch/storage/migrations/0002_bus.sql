-- Topics, their names and messages, and the status of questions.

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

CREATE TABLE topic_seq (
  topic_id TEXT PRIMARY KEY REFERENCES topics (topic_id),
  next_seq BIGINT NOT NULL DEFAULT 1,
  updated_at BIGINT NOT NULL
);

CREATE TABLE agent_name_reservations (
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  agent_name TEXT NOT NULL,
  agent_id TEXT REFERENCES agents (agent_id),
  is_own BIGINT NOT NULL DEFAULT 0,
  reclaim_token_hash TEXT,
  created_at BIGINT NOT NULL,
  last_claimed_at BIGINT NOT NULL,
  PRIMARY KEY (topic_id, agent_name)
);

-- The name of an agent that speaks on a topic as itself, without a token. An agent has at most one per topic.
CREATE UNIQUE INDEX agent_name_reservations_own_idx ON agent_name_reservations (agent_id, topic_id) WHERE is_own = 1;

CREATE TABLE cursors (
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  agent_name TEXT NOT NULL,
  last_seq BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (topic_id, agent_name)
);

CREATE INDEX cursors_topic_updated_at_idx ON cursors (topic_id, updated_at);

CREATE TABLE messages (
  number $serial_key,
  message_id TEXT NOT NULL UNIQUE,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  seq BIGINT NOT NULL,
  sender TEXT NOT NULL,
  message_type TEXT NOT NULL,
  reply_to TEXT,
  content_markdown TEXT NOT NULL,
  metadata_json TEXT,
  client_message_id TEXT,
  created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX messages_topic_seq_idx ON messages (topic_id, seq);
CREATE UNIQUE INDEX messages_client_message_id_idx ON messages (topic_id, sender, client_message_id)
WHERE client_message_id IS NOT NULL;
CREATE INDEX messages_topic_reply_to_idx ON messages (topic_id, reply_to) WHERE reply_to IS NOT NULL;

-- A question is a message; this table has only its status.
CREATE TABLE questions (
  question_id TEXT PRIMARY KEY,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  asked_by TEXT NOT NULL,
  asked_at BIGINT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  cancel_reason TEXT,
  CHECK (status IN ('pending', 'answered', 'cancelled'))
);

CREATE INDEX questions_topic_status_asked_at_idx ON questions (topic_id, status, asked_at);

-- Which message is a peer's answer to a question. Each peer has at most one.
CREATE TABLE answers (
  question_id TEXT NOT NULL REFERENCES questions (question_id),
  answered_by TEXT NOT NULL,
  answer_id TEXT NOT NULL UNIQUE,
  answered_at BIGINT NOT NULL,
  PRIMARY KEY (question_id, answered_by)
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

-- Home topics for the existing rooms, and their members' names on them.
INSERT INTO topics (topic_id, name, created_at, status, closed_at, mode)
SELECT topic_id, canonical_path, created_at,
  CASE state WHEN 'closed' THEN 'closed' ELSE 'open' END,
  CASE state WHEN 'closed' THEN updated_at END,
  'home'
FROM path_rooms;

INSERT INTO topic_seq (topic_id, updated_at) SELECT topic_id, created_at FROM path_rooms;

INSERT INTO agent_name_reservations (topic_id, agent_name, agent_id, is_own, created_at, last_claimed_at)
SELECT r.topic_id, a.name, m.agent_id, 1, m.joined_at, m.joined_at
FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id JOIN agents a ON a.agent_id = m.agent_id;

INSERT INTO cursors (topic_id, agent_name, updated_at)
SELECT topic_id, agent_name, created_at FROM agent_name_reservations;
