-- What is new for an agent. Each part is found by an index. What one peer of an agent has read, the agent has read.

-- name: news_messages
-- Messages to the agent and questions that it could answer, after its cursor and what was shown. And messages to
-- nobody in particular, after the mark that `start_hearing` made.
WITH mine AS MATERIALIZED (
  SELECT p.peer_id, p.topic_id, c.last_seq, c.shown_seq FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
  WHERE p.agent_id = :agent_id
), names AS MATERIALIZED (
  SELECT n.topic_id, n.agent_name AS name FROM mine m JOIN agent_name_reservations n ON n.peer_id = m.peer_id
  UNION SELECT topic_id, :agent_id FROM mine
), shown AS MATERIALIZED (
  SELECT topic_id, max(CASE WHEN shown_seq > last_seq THEN shown_seq ELSE last_seq END) AS seq FROM mine GROUP BY topic_id
), heard AS MATERIALIZED (
  SELECT t.topic_id, max(t.seq) AS seq FROM (
    SELECT m.topic_id, CASE WHEN m.last_seq > k.through THEN m.last_seq ELSE k.through END AS seq
    FROM mine m JOIN marks k ON k.agent_id = :agent_id AND k.kind = 'all' AND k.place = m.topic_id
  ) t GROUP BY t.topic_id
), found AS MATERIALIZED (
  SELECT s.topic_id, a.seq FROM shown s JOIN names n ON n.topic_id = s.topic_id
  JOIN message_addressees a ON a.addressee = n.name AND a.topic_id = n.topic_id AND a.seq > s.seq
  WHERE a.sender_id NOT IN (SELECT peer_id FROM mine)
  UNION
  SELECT s.topic_id, m.seq FROM shown s JOIN questions q ON q.topic_id = s.topic_id AND q.status = 'pending'
  JOIN messages m ON m.message_id = q.question_id AND m.seq > s.seq
  WHERE q.asked_by_id NOT IN (SELECT peer_id FROM mine)
    AND (m.metadata_json IS NULL OR m.metadata_json NOT LIKE '%"to"%')
    AND NOT EXISTS (
      SELECT 1 FROM answers a WHERE a.question_id = q.question_id AND a.answered_by_id IN (SELECT peer_id FROM mine)
    )
  UNION
  SELECT h.topic_id, m.seq FROM heard h JOIN shown s ON s.topic_id = h.topic_id
  JOIN messages m ON m.topic_id = h.topic_id AND m.seq > h.seq
  WHERE m.sender_id NOT IN (SELECT peer_id FROM mine)
    AND (m.metadata_json IS NULL OR m.metadata_json NOT LIKE '%"to"%')
    AND (m.message_type <> 'question' OR m.seq > s.seq)
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
-- A listener gets the handoff of a stick that is offered to it with the stick.
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.to_agent_id = :agent_id AND e.state = 'unread' AND e.shown_at IS NULL
  AND NOT (e.handoff_event_seq IS NOT NULL AND r.state = 'reserved' AND r.reserved_for = :agent_id)
ORDER BY e.priority, e.number LIMIT :limit;

-- name: start_hearing
-- An agent hears what is said to all since it joined a topic.
INSERT INTO marks (agent_id, kind, place, through, updated_at)
SELECT :agent_id, 'all', t.topic_id, COALESCE((
  SELECT m.seq FROM messages m WHERE m.topic_id = t.topic_id AND m.created_at < t.joined_at ORDER BY m.seq DESC LIMIT 1
), 0), :now
FROM (
  SELECT p.topic_id, min(p.created_at) AS joined_at FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
  WHERE p.agent_id = :agent_id GROUP BY p.topic_id
) t
WHERE NOT EXISTS (SELECT 1 FROM marks k WHERE k.agent_id = :agent_id AND k.kind = 'all' AND k.place = t.topic_id)
ON CONFLICT (agent_id, kind, place) DO NOTHING;

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

-- name: mark_messages_unshown
UPDATE cursors SET shown_seq = :seq
WHERE shown_seq > :seq AND peer_id IN (
  SELECT peer_id FROM peers WHERE agent_id = :agent_id AND topic_id = :topic_id
);

-- name: mark_notices_unshown
UPDATE protocol_events SET shown_at = NULL WHERE event_id IN :ids;

-- name: find_listener
SELECT listener_id, host_id, boot_id, pid, process_started_at, started_at, expires_at
FROM listeners WHERE agent_id = :agent_id;

-- name: put_listener
INSERT INTO listeners
  (agent_id, listener_id, host_id, boot_id, pid, process_started_at, started_at, expires_at)
VALUES
  (:agent_id, :listener_id, :host_id, :boot_id, :pid, :process_started_at, :now, :expires_at)
ON CONFLICT (agent_id) DO UPDATE SET
  listener_id = excluded.listener_id, host_id = excluded.host_id, boot_id = excluded.boot_id, pid = excluded.pid,
  process_started_at = excluded.process_started_at, started_at = excluded.started_at, expires_at = excluded.expires_at;

-- name: renew_listener
UPDATE listeners SET expires_at = :expires_at WHERE agent_id = :agent_id AND listener_id = :listener_id;

-- name: drop_listener
DELETE FROM listeners WHERE agent_id = :agent_id AND listener_id = :listener_id;

-- name: topics_of_agent
SELECT DISTINCT p.topic_id FROM peers p JOIN cursors c ON c.peer_id = p.peer_id JOIN topics t ON t.topic_id = p.topic_id
WHERE p.agent_id = :agent_id AND t.status = 'open';

-- name: rooms_of_agent
SELECT r.room_id FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
WHERE m.agent_id = :agent_id AND r.state <> 'closed' ORDER BY m.joined_at DESC LIMIT :limit;
