-- What the pages of the console ask for. Everything is bounded.

-- name: turn_events_until
-- The events that begin or end a turn, newest first.
SELECT * FROM room_events
WHERE room_id = :room_id AND created_at <= :until
  AND event_type IN ('claim', 'takeover', 'release', 'pass', 'return', 'kick', 'close')
ORDER BY event_seq DESC LIMIT :limit;

-- name: turn_event_after
SELECT * FROM room_events
WHERE room_id = :room_id AND created_at > :until
  AND event_type IN ('claim', 'takeover', 'release', 'pass', 'return', 'kick', 'close')
ORDER BY event_seq LIMIT 1;

-- name: first_turn_at
SELECT created_at FROM room_events WHERE room_id = :room_id AND event_type IN ('claim', 'takeover', 'release', 'pass', 'return', 'kick', 'close')
ORDER BY event_seq LIMIT 1;

-- name: room_event
SELECT * FROM room_events WHERE room_id = :room_id AND event_seq = :event_seq;

-- name: work_items
-- The work items that reservations and notices name, the latest first.
SELECT i.bead_id, i.room_id, r.canonical_path, max(i.latest_at) AS latest_at, sum(i.reservations) AS reservations,
  sum(i.active) AS active, sum(i.notices) AS notices, sum(i.open_notices) AS open_notices
FROM (
  SELECT bead_id, room_id, max(COALESCE(ended_at, created_at)) AS latest_at, count(*) AS reservations,
    sum(CASE WHEN state = 'active' AND expires_at > :now THEN 1 ELSE 0 END) AS active, 0 AS notices, 0 AS open_notices
  FROM reservations WHERE bead_id IS NOT NULL GROUP BY bead_id, room_id
  UNION ALL
  SELECT bead_id, room_id, max(COALESCE(accepted_at, seen_at, created_at)), 0, 0, count(*),
    sum(CASE WHEN state <> 'accepted' THEN 1 ELSE 0 END)
  FROM protocol_events WHERE bead_id IS NOT NULL GROUP BY bead_id, room_id
) i JOIN path_rooms r ON r.room_id = i.room_id
GROUP BY i.bead_id, i.room_id, r.canonical_path
ORDER BY max(i.latest_at) DESC, i.bead_id LIMIT :limit;

-- name: agents_on_items
-- Who has reserved files for these work items, or sent notices about them.
SELECT bead_id, room_id, agent_id, name FROM (
  SELECT x.bead_id, x.room_id, x.agent_id, m.name FROM reservations x
  JOIN room_members m ON m.room_id = x.room_id AND m.agent_id = x.agent_id WHERE x.bead_id IN :bead_ids
  UNION
  SELECT e.bead_id, e.room_id, e.from_agent_id, e.from_agent FROM protocol_events e
  WHERE e.bead_id IN :bead_ids AND e.from_agent_id IS NOT NULL
) on_it ORDER BY bead_id, room_id, agent_id;

-- name: item_reservations
SELECT r.*, COALESCE(m.name, a.name) AS name, a.last_seen_at, a.host_id, a.boot_id, a.pid, a.process_started_at
FROM reservations r JOIN agents a ON a.agent_id = r.agent_id
LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
WHERE r.bead_id = :bead_id AND r.room_id = :room_id ORDER BY r.number DESC LIMIT :limit;

-- name: item_notices
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.bead_id = :bead_id AND e.room_id = :room_id ORDER BY e.number DESC LIMIT :limit;

-- name: topics_for_people
-- Topics, those with the latest messages first.
SELECT t.*, s.next_seq - 1 AS last_seq, s.updated_at, r.room_id
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id LEFT JOIN path_rooms r ON r.topic_id = t.topic_id
WHERE t.status IN :statuses AND (s.updated_at < :moment OR (s.updated_at = :moment AND t.topic_id < :after))
ORDER BY s.updated_at DESC, t.topic_id DESC LIMIT :limit;

-- name: topic_for_people
SELECT t.*, s.next_seq - 1 AS last_seq, s.updated_at, r.room_id
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id LEFT JOIN path_rooms r ON r.topic_id = t.topic_id
WHERE t.topic_id = :topic_id;

-- name: questions_with_answers
SELECT q.question_id, q.status, q.cancel_reason,
  (SELECT count(*) FROM answers a WHERE a.question_id = q.question_id) AS answers
FROM questions q WHERE q.question_id IN :question_ids;

-- name: rooms_and_agents
SELECT (SELECT count(*) FROM path_rooms WHERE state <> 'closed') AS rooms, (SELECT count(*) FROM agents) AS agents,
  (SELECT value FROM meta WHERE key = 'schema_version') AS schema_version;

-- name: latest_agents
SELECT a.*, (SELECT count(*) FROM room_members m WHERE m.agent_id = a.agent_id) AS rooms
FROM agents a ORDER BY a.last_seen_at DESC, a.agent_id LIMIT :limit;
