-- name: find_agent
SELECT agent_id, name, harness, session_kind, host_id, boot_id, pid, process_started_at
FROM agents WHERE agent_id = :agent_id;

-- name: agent_seen
SELECT last_seen_at FROM agents WHERE agent_id = :agent_id;

-- name: agents_by_signals
SELECT
  s.signal, a.agent_id, a.name, a.harness, a.session_kind, a.host_id, a.boot_id, a.pid, a.process_started_at,
  EXISTS (SELECT 1 FROM room_members m WHERE m.agent_id = a.agent_id) AS has_rooms
FROM agent_signals s JOIN agents a ON a.agent_id = s.agent_id
WHERE s.signal IN :signals;

-- name: agent_named
SELECT agent_id FROM agents WHERE name = :name;

-- name: anybody_named
SELECT agent_id FROM agents WHERE name = :name
UNION ALL
SELECT agent_id FROM room_members WHERE name = :name;

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

-- name: rename_member
UPDATE room_members SET name = :name WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: member_named
SELECT m.agent_id, m.name FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE r.topic_id = :topic_id AND m.name = :name;

-- name: member_on_topic
SELECT m.agent_id, m.name FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE r.topic_id = :topic_id AND m.agent_id = :agent_id;

-- name: free_topics_as
SELECT own.topic_id FROM agent_name_reservations own JOIN topics t ON t.topic_id = own.topic_id
WHERE own.agent_id = :agent_id AND own.is_own = 1 AND own.agent_name = :name AND t.mode <> 'home';

-- name: rename_cursor
UPDATE cursors SET agent_name = :name WHERE topic_id = :topic_id AND agent_name = :former;

-- name: rename_reservation
UPDATE agent_name_reservations SET agent_name = :name, after_seq = :after_seq
WHERE topic_id = :topic_id AND agent_name = :former;

-- name: keep_former_name
INSERT INTO agent_name_reservations
  (topic_id, agent_name, agent_id, is_own, renamed_to, after_seq, created_at, last_claimed_at)
SELECT topic_id, :former, agent_id, 0, :name, :after_seq, created_at, last_claimed_at FROM agent_name_reservations
WHERE topic_id = :topic_id AND agent_name = :name;

-- name: rename_again
UPDATE agent_name_reservations SET renamed_to = :name WHERE topic_id = :topic_id AND renamed_to = :former;

-- name: former_names
SELECT agent_name FROM agent_name_reservations WHERE topic_id = :topic_id AND renamed_to = :name;

-- name: begin_former_names
UPDATE agent_name_reservations SET after_seq = :after_seq WHERE topic_id = :topic_id AND renamed_to = :name;
