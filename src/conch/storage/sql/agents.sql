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

-- name: rename_agent
UPDATE agents SET name = :name WHERE agent_id = :agent_id;

-- name: drop_leftover_cursors
DELETE FROM cursors WHERE agent_name = :name AND NOT EXISTS (
  SELECT 1 FROM agent_name_reservations r WHERE r.topic_id = cursors.topic_id AND r.agent_name = cursors.agent_name
);

-- name: rename_own_cursors
UPDATE cursors SET agent_name = :name
WHERE agent_name = :former AND topic_id IN (
  SELECT own.topic_id FROM agent_name_reservations own
  WHERE own.agent_id = :agent_id AND own.is_own = 1 AND own.agent_name = :former AND NOT EXISTS (
    SELECT 1 FROM agent_name_reservations taken WHERE taken.topic_id = own.topic_id AND taken.agent_name = :name
  )
) AND NOT EXISTS (
  SELECT 1 FROM cursors other WHERE other.topic_id = cursors.topic_id AND other.agent_name = :name
);

-- name: rename_own_reservations
UPDATE agent_name_reservations SET agent_name = :name
WHERE agent_id = :agent_id AND is_own = 1 AND agent_name = :former AND NOT EXISTS (
  SELECT 1 FROM agent_name_reservations taken
  WHERE taken.topic_id = agent_name_reservations.topic_id AND taken.agent_name = :name
);

-- name: forget_former_name
DELETE FROM agent_name_reservations WHERE agent_id = :agent_id AND is_former = 1 AND agent_name = :name;

-- name: keep_former_name
INSERT INTO agent_name_reservations
  (topic_id, agent_name, agent_id, is_own, is_former, created_at, last_claimed_at)
SELECT topic_id, :former, agent_id, 0, 1, created_at, last_claimed_at FROM agent_name_reservations
WHERE agent_id = :agent_id AND is_own = 1 AND agent_name = :name
ON CONFLICT (topic_id, agent_name) DO NOTHING;

-- name: move_former_names
UPDATE agent_name_reservations SET agent_id = :to_agent_id WHERE agent_id = :from_agent_id AND is_former = 1;
