-- name: find_agent
SELECT agent_id, name, harness, session_kind, host_id, boot_id, pid, process_started_at
FROM agents WHERE agent_id = :agent_id;

-- name: agents_by_signals
SELECT
  s.signal, a.agent_id, a.name, a.harness, a.session_kind, a.host_id, a.boot_id, a.pid, a.process_started_at,
  EXISTS (SELECT 1 FROM room_members m WHERE m.agent_id = a.agent_id) AS has_rooms
FROM agent_signals s JOIN agents a ON a.agent_id = s.agent_id
WHERE s.signal IN :signals;

-- name: agent_named
SELECT agent_id FROM agents WHERE name = :name;

-- name: insert_agent
INSERT INTO agents
  (agent_id, name, harness, session_kind, host_id, boot_id, pid, process_started_at, created_at, last_seen_at)
VALUES
  (:agent_id, :name, :harness, :session_kind, :host_id, :boot_id, :pid, :process_started_at, :now, :now);

-- name: update_agent_process
UPDATE agents SET host_id = :host_id, boot_id = :boot_id, pid = :pid, process_started_at = :process_started_at
WHERE agent_id = :agent_id;

-- name: link_signal
INSERT INTO agent_signals (signal, agent_id, linked_at) VALUES (:signal, :agent_id, :now)
ON CONFLICT (signal) DO UPDATE SET agent_id = excluded.agent_id, linked_at = excluded.linked_at;
