-- The connections of MCP clients, so that two that live at the same time are never one agent by accident.

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
