-- Waiting for everything at once.

-- Up to which message of a topic a listener has shown an agent the messages to all, and the last turn of a room that
-- the agent knows it may take over.
CREATE TABLE marks (
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  kind TEXT NOT NULL,
  place TEXT NOT NULL,
  through BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (agent_id, kind, place),
  CHECK (kind IN ('all', 'takeover'))
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
