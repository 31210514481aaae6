-- What is new for an agent, and how conch remembers what it has shown. A hook shows it between tool calls, `listen` in
-- its reply. Each part is found by an index. What one peer of an agent has read, the agent has read.

-- name: news_messages
-- Messages to the agent and questions that it could answer, after its cursor and what was shown. For a listener also
-- messages to nobody in particular, after the mark that `start_hearing` made.
WITH mine AS MATERIALIZED (
  SELECT p.peer_id, p.topic_id, c.last_seq FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
  WHERE p.agent_id = :agent_id
), names AS MATERIALIZED (
  SELECT n.topic_id, n.agent_name AS name FROM mine m JOIN agent_name_reservations n ON n.peer_id = m.peer_id
  UNION SELECT topic_id, :agent_id FROM mine
), shown AS MATERIALIZED (
  SELECT t.topic_id, CASE WHEN y.through > t.last_seq THEN y.through ELSE t.last_seq END AS to_you,
    CASE WHEN a.through < t.last_seq THEN t.last_seq ELSE a.through END AS to_all
  FROM (SELECT topic_id, max(last_seq) AS last_seq FROM mine GROUP BY topic_id) t
  LEFT JOIN marks y ON y.agent_id = :agent_id AND y.kind = 'to_you' AND y.place = t.topic_id
  LEFT JOIN marks a ON a.agent_id = :agent_id AND a.kind = 'all' AND a.place = t.topic_id AND :to_all = 1
), found AS MATERIALIZED (
  SELECT s.topic_id, a.seq FROM shown s JOIN names n ON n.topic_id = s.topic_id
  JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id AND a.seq > s.to_you
  WHERE a.sender_id NOT IN (SELECT peer_id FROM mine)
  UNION
  SELECT s.topic_id, m.seq FROM shown s JOIN questions q ON q.topic_id = s.topic_id AND q.status = 'pending'
  JOIN messages m ON m.message_id = q.question_id AND m.seq > s.to_you
  WHERE q.asked_by_id NOT IN (SELECT peer_id FROM mine)
    AND (
      m.metadata_json IS NULL OR m.metadata_json NOT LIKE '%"to"%'
      OR NOT EXISTS (SELECT 1 FROM message_addressees a WHERE a.topic_id = m.topic_id AND a.seq = m.seq)
    )
    AND NOT EXISTS (
      SELECT 1 FROM answers a WHERE a.question_id = q.question_id AND a.answered_by_id IN (SELECT peer_id FROM mine)
    )
  UNION
  SELECT s.topic_id, m.seq FROM shown s JOIN messages m ON m.topic_id = s.topic_id AND m.seq > s.to_all
  WHERE m.sender_id NOT IN (SELECT peer_id FROM mine)
    AND (
      m.metadata_json IS NULL OR m.metadata_json NOT LIKE '%"to"%'
      OR NOT EXISTS (SELECT 1 FROM message_addressees a WHERE a.topic_id = m.topic_id AND a.seq = m.seq)
    )
    AND (m.message_type <> 'question' OR m.seq > s.to_you)
)
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id,
  CASE WHEN m.message_type = 'question' AND EXISTS (
    SELECT 1 FROM questions q WHERE q.question_id = m.message_id AND q.status = 'pending' AND NOT EXISTS (
      SELECT 1 FROM answers a WHERE a.question_id = q.question_id AND a.answered_by_id IN (SELECT peer_id FROM mine)
    )
  ) THEN 1 ELSE 0 END AS is_open
FROM found f JOIN messages m ON m.topic_id = f.topic_id AND m.seq = f.seq LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.message_type <> 'ack'
ORDER BY m.number LIMIT :limit;

-- name: news_notices
-- If a stick is offered to a listener, it gets the handoff together with the stick, not as a notice.
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.to_agent_id = :agent_id AND e.state = 'unread' AND e.shown_at IS NULL
  AND NOT (:to_all = 1 AND e.handoff_event_seq IS NOT NULL AND r.state = 'reserved' AND r.reserved_for = :agent_id)
ORDER BY e.priority, e.number LIMIT :limit;

-- name: set_mark
INSERT INTO marks (agent_id, kind, place, through, updated_at) VALUES (:agent_id, :kind, :place, :through, :now)
ON CONFLICT (agent_id, kind, place) DO UPDATE SET
  through = CASE WHEN marks.through < excluded.through THEN excluded.through ELSE marks.through END,
  updated_at = excluded.updated_at;

-- name: set_mark_back
UPDATE marks SET through = CASE WHEN through > :through THEN :through ELSE through END, updated_at = :now
WHERE agent_id = :agent_id AND kind = :kind AND place = :place;

-- name: find_mark
SELECT through FROM marks WHERE agent_id = :agent_id AND kind = :kind AND place = :place;

-- name: mark_notices_shown
UPDATE protocol_events SET shown_at = :now WHERE event_id IN :ids AND shown_at IS NULL;

-- name: mark_notices_unshown
UPDATE protocol_events SET shown_at = NULL WHERE event_id IN :ids;

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
