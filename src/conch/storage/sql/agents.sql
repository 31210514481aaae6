-- name: find_agent
SELECT agent_id, name, harness, session_kind, host_id, boot_id, pid, process_started_at, last_seen_at, is_timed
FROM agents WHERE agent_id = :agent_id;

-- name: agent_in_rooms
SELECT
  a.agent_id, a.name, a.harness, a.session_kind, a.host_id, a.boot_id, a.pid, a.process_started_at,
  a.is_timed, EXISTS (SELECT 1 FROM room_members m WHERE m.agent_id = a.agent_id) AS has_rooms
FROM agents a WHERE a.agent_id = :agent_id;

-- name: agent_on_host
SELECT agent_id FROM agents WHERE host_id = :host_id AND session_kind = :session_kind LIMIT 1;

-- name: agent_seen
SELECT last_seen_at FROM agents WHERE agent_id = :agent_id;

-- name: agents_by_signals
SELECT
  s.signal, a.agent_id, a.name, a.harness, a.session_kind, a.host_id, a.boot_id, a.pid, a.process_started_at,
  a.is_timed, EXISTS (SELECT 1 FROM room_members m WHERE m.agent_id = a.agent_id) AS has_rooms
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

-- name: set_timed
UPDATE agents SET is_timed = 1, host_id = NULL, boot_id = NULL, pid = NULL, process_started_at = NULL
WHERE agent_id = :agent_id;

-- name: update_member_processes
UPDATE room_members
SET host_id = :host_id, boot_id = :boot_id, pid = :pid, process_started_at = :process_started_at
WHERE agent_id = :agent_id;

-- name: forget_member_processes
UPDATE room_members SET host_id = NULL, boot_id = NULL, pid = NULL, process_started_at = NULL, is_gone = 0
WHERE agent_id = :agent_id;

-- name: link_signal
INSERT INTO agent_signals (signal, agent_id, linked_at) VALUES (:signal, :agent_id, :now)
ON CONFLICT (signal) DO UPDATE SET agent_id = excluded.agent_id, linked_at = excluded.linked_at;

-- name: rename_agent
UPDATE agents SET name = :name WHERE agent_id = :agent_id;

-- name: rename_member
UPDATE room_members SET name = :name WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: member_named
SELECT m.agent_id, m.name FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE r.topic_id = :topic_id AND m.name = :name;

-- name: member_on_topic
SELECT m.agent_id, m.name FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE r.topic_id = :topic_id AND m.agent_id = :agent_id;

-- name: free_peers_named
SELECT p.* FROM peers p JOIN topics t ON t.topic_id = p.topic_id
WHERE p.agent_id = :agent_id AND p.is_own = 1 AND p.name = :name AND t.mode <> 'home';

-- name: find_connection
SELECT agent_id, parent, closed_at FROM connections WHERE connection = :connection;

-- name: connections_below
SELECT * FROM connections WHERE parent IN :parents;

-- name: connections_of
SELECT * FROM connections WHERE agent_id IN :agent_ids;

-- name: open_connection
INSERT INTO connections
  (connection, agent_id, parent, client_name, host_id, boot_id, pid, process_started_at, opened_at)
VALUES
  (:connection, :agent_id, :parent, :client_name, :host_id, :boot_id, :pid, :process_started_at, :now)
ON CONFLICT (connection) DO UPDATE
SET agent_id = excluded.agent_id, parent = excluded.parent, client_name = excluded.client_name, closed_at = NULL;

-- name: move_connection
UPDATE connections
SET agent_id = :agent_id,
  parent = CASE WHEN SUBSTR(parent, 1, LENGTH(:prefix)) = :prefix THEN parent ELSE :prefix || parent END
WHERE connection = :connection;

-- name: close_connection
-- Not before it was opened, even if the clock was set back.
UPDATE connections SET closed_at = CASE WHEN opened_at > :now THEN opened_at ELSE :now END
WHERE connection = :connection AND closed_at IS NULL;

-- name: forget_connection
DELETE FROM connections WHERE connection = :connection;

-- name: room_owned_by
SELECT room_id FROM path_rooms WHERE owner = :agent_id;
