-- name: overlapping_reservations
SELECT r.*, COALESCE(m.name, a.name) AS name, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM reservations r JOIN agents a ON a.agent_id = r.agent_id
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
WHERE r.room_id = :room_id AND r.state = 'active' AND r.scope_key IN :keys AND r.expires_at > :lapsed
UNION ALL
SELECT r.*, COALESCE(m.name, a.name) AS name, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM reservations r JOIN agents a ON a.agent_id = r.agent_id
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
WHERE r.room_id = :room_id AND r.state = 'active' AND r.scope_key > :key AND r.scope_key < :end AND r.expires_at > :lapsed
ORDER BY scope_key LIMIT :limit;

-- name: find_reservation
SELECT number, scope_key FROM reservations WHERE reservation_id = :reservation_id AND room_id = :room_id;

-- name: active_reservations
SELECT r.*, COALESCE(m.name, a.name) AS name, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM reservations r JOIN agents a ON a.agent_id = r.agent_id
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
WHERE r.room_id = :room_id AND r.state = 'active' AND r.scope_key > :after AND r.expires_at > :lapsed
ORDER BY r.scope_key LIMIT :limit;

-- name: ended_reservations
SELECT
  r.*, COALESCE(m.name, own.name, a.agent_id) AS name, a.last_seen_at, a.host_id, a.boot_id, a.pid,
  a.process_started_at
FROM reservations r JOIN agents a ON a.agent_id = r.agent_id JOIN path_rooms p ON p.room_id = r.room_id
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
LEFT JOIN peers own ON own.topic_id = p.topic_id AND own.agent_id = r.agent_id AND own.is_own = 1
WHERE r.room_id = :room_id AND r.state <> 'active' AND r.number < :before
ORDER BY r.number DESC LIMIT :limit;

-- name: latest_lost_reservation
SELECT r.ended_at, r.expires_at, t.kind, t.agent_id AS taken_by_id, t.agent_name AS taken_by
FROM reservations r JOIN room_activity t
  ON t.room_id = r.room_id AND t.subject_id = r.reservation_id AND t.kind IN ('expired', 'released')
WHERE r.number = (
  SELECT max(number) FROM reservations
  WHERE room_id = :room_id AND agent_id = :agent_id AND scope_key = :scope_key AND state <> 'active'
);

-- name: reservations_of
SELECT r.*, COALESCE(m.name, a.name) AS name, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM reservations r JOIN agents a ON a.agent_id = r.agent_id
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
WHERE r.agent_id = :agent_id AND r.room_id = :room_id AND r.state = 'active'
ORDER BY r.scope_key;

-- name: expired_reservations_of
-- Leaves out reservations inside a scope that the agents themselves released later.
SELECT r.* FROM reservations r
WHERE r.room_id = :room_id AND r.state = 'expired' AND r.agent_id IN :agent_ids AND NOT EXISTS (
  SELECT 1 FROM reservations given
  WHERE given.room_id = r.room_id AND given.state = 'released' AND given.agent_id IN :agent_ids
    AND given.ended_at >= r.ended_at AND substr(r.scope_key, 1, length(given.scope_key)) = given.scope_key
)
ORDER BY r.number;

-- name: agents_with_work
-- Those that have reserved something in a room and have not released it, or had the stick since the last handoff.
-- `state <> 'active'` is the condition of the index of ended reservations.
SELECT agent_id FROM reservations WHERE room_id = :room_id AND state = 'active'
UNION
SELECT agent_id FROM reservations WHERE room_id = :room_id AND state <> 'active' AND state = 'expired'
UNION
SELECT to_agent_id FROM room_events
WHERE room_id = :room_id AND event_type IN ('claim', 'takeover') AND event_seq > COALESCE((
  SELECT event_seq FROM room_events WHERE room_id = :room_id AND event_type IN ('release', 'pass')
  ORDER BY event_seq DESC LIMIT 1
), 0);

-- name: resumptions
SELECT agent_id, subject_id, details_json, created_at FROM room_activity
WHERE room_id = :room_id AND kind = 'RESUME' ORDER BY number;

-- name: insert_reservation
INSERT INTO reservations
  (reservation_id, room_id, agent_id, given, scope, scope_key, bead_id, created_at, expires_at)
VALUES
  (:reservation_id, :room_id, :agent_id, :given, :scope, :scope_key, :bead_id, :created_at, :expires_at);

-- name: extend_reservation
UPDATE reservations SET given = :given, expires_at = :expires_at, bead_id = :bead_id
WHERE reservation_id = :reservation_id AND state = 'active';

-- name: end_reservation
UPDATE reservations SET state = :state, ended_at = :now WHERE reservation_id = :reservation_id AND state = 'active';

-- name: move_reservation
UPDATE reservations SET agent_id = :to_agent_id WHERE reservation_id = :reservation_id;

-- name: room_agents
-- The index has those that are marked as gone after the others. Each part has its own limit, so that it ends early.
SELECT
  m.name, m.ordinal, m.takes_turns, a.agent_id, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at,
  g.role, g.registered_at
FROM (
  SELECT * FROM (
    SELECT * FROM room_members WHERE room_id = :room_id AND is_gone = 0 AND ordinal > :after
    ORDER BY ordinal LIMIT :limit
  ) present
  UNION ALL
  SELECT * FROM (
    SELECT * FROM room_members WHERE room_id = :room_id AND is_gone = 1 AND ordinal > :after
    ORDER BY ordinal LIMIT :limit
  ) gone
) m
JOIN agents a ON a.agent_id = m.agent_id
LEFT JOIN registrations g ON g.room_id = m.room_id AND g.agent_id = m.agent_id
ORDER BY m.ordinal LIMIT :limit;

-- name: room_agent
SELECT
  m.name, m.ordinal, m.takes_turns, a.agent_id, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at,
  g.role, g.registered_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
LEFT JOIN registrations g ON g.room_id = m.room_id AND g.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.agent_id = :agent_id;

-- name: register_agent
INSERT INTO registrations (room_id, agent_id, role, registered_at) VALUES (:room_id, :agent_id, :role, :now)
ON CONFLICT (room_id, agent_id) DO UPDATE SET role = COALESCE(excluded.role, registrations.role);

-- name: append_activity
INSERT INTO room_activity (room_id, kind, agent_id, agent_name, subject_id, details_json, created_at)
VALUES (:room_id, :kind, :agent_id, :agent_name, :subject_id, :details_json, :now);

-- name: append_acceptance
INSERT INTO room_activity (room_id, kind, agent_id, agent_name, subject_id, created_at)
SELECT :room_id, 'accepted', :agent_id, :name, event_id, CAST(:now AS BIGINT)
FROM protocol_events WHERE handoff_event_seq = :event_seq AND state <> 'accepted';
