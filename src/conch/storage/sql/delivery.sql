-- What hooks show to an agent between its tool calls, and how they remember it.

-- name: undelivered_messages
-- Messages to the agent, and open questions to everybody, that it has neither read nor been shown.
WITH mine AS MATERIALIZED (
  SELECT p.peer_id, p.topic_id, CASE WHEN c.shown_seq > c.last_seq THEN c.shown_seq ELSE c.last_seq END AS known
  FROM peers p JOIN cursors c ON c.peer_id = p.peer_id WHERE p.agent_id = :agent_id
), known AS MATERIALIZED (
  SELECT topic_id, max(known) AS seq FROM mine GROUP BY topic_id
), names AS (
  SELECT n.topic_id, n.agent_name AS name FROM mine m JOIN agent_name_reservations n ON n.peer_id = m.peer_id
  UNION SELECT topic_id, :agent_id FROM mine
), found AS (
  SELECT a.topic_id, a.seq FROM known k JOIN names n ON n.topic_id = k.topic_id
  JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id AND a.seq > k.seq
  WHERE a.sender_id NOT IN (SELECT peer_id FROM mine)
  UNION
  SELECT m.topic_id, m.seq FROM known k JOIN questions q ON q.topic_id = k.topic_id AND q.status = 'pending'
  JOIN messages m ON m.message_id = q.question_id AND m.seq > k.seq
  WHERE q.asked_by_id NOT IN (SELECT peer_id FROM mine)
    AND (m.metadata_json IS NULL OR m.metadata_json NOT LIKE '%"to"%')
)
SELECT f.topic_id, f.seq, m.message_id, m.message_type, substr(m.content_markdown, 1, :longest) AS body,
  p.name AS sender, p.agent_id AS sender_agent_id
FROM found f JOIN messages m ON m.topic_id = f.topic_id AND m.seq = f.seq
LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.message_type <> 'ack'
ORDER BY f.topic_id, f.seq LIMIT :most;

-- name: undelivered_notices
SELECT event_id, event_type, from_agent_id, from_agent, scope, payload_json
FROM protocol_events WHERE to_agent_id = :agent_id AND state = 'unread' AND shown_at IS NULL
ORDER BY priority, number LIMIT :most;

-- name: mark_messages_shown
UPDATE cursors SET shown_seq = :seq
WHERE shown_seq < :seq AND peer_id IN (
  SELECT peer_id FROM peers WHERE agent_id = :agent_id AND topic_id = :topic_id
);

-- name: mark_notices_shown
UPDATE protocol_events SET shown_at = :now WHERE event_id IN :ids AND shown_at IS NULL;

-- name: notices_to_accept
-- Work that was handed to the agent, and calls for help, in some rooms.
SELECT event_id, event_type, from_agent_id, from_agent, payload_json
FROM protocol_events
WHERE to_agent_id = :agent_id AND room_id IN :room_ids AND state <> 'accepted' AND event_type IN ('HANDOFF', 'BLOCKED')
ORDER BY priority, number LIMIT :most;

-- name: questions_to_agent
-- Open questions that name the agent and that it has not answered.
WITH mine AS MATERIALIZED (
  SELECT peer_id, topic_id FROM peers WHERE agent_id = :agent_id
), names AS (
  SELECT n.topic_id, n.agent_name AS name FROM mine m JOIN agent_name_reservations n ON n.peer_id = m.peer_id
  UNION SELECT topic_id, :agent_id FROM mine
)
SELECT q.question_id, p.name AS sender, p.agent_id AS sender_agent_id, substr(m.content_markdown, 1, :longest) AS body
FROM questions q JOIN messages m ON m.message_id = q.question_id LEFT JOIN peers p ON p.peer_id = q.asked_by_id
WHERE q.status = 'pending' AND q.topic_id IN (SELECT topic_id FROM mine)
  AND q.asked_by_id NOT IN (SELECT peer_id FROM mine)
  AND EXISTS (
    SELECT 1 FROM names n JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id
    WHERE n.topic_id = q.topic_id AND a.seq = m.seq
  )
  AND NOT EXISTS (
    SELECT 1 FROM answers a WHERE a.question_id = q.question_id AND a.answered_by_id IN (SELECT peer_id FROM mine)
  )
ORDER BY q.asked_at LIMIT :most;
