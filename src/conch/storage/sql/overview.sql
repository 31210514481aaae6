-- What a person sees of a room. Everything is bounded, and found by an index.

-- name: open_questions
SELECT q.question_id, p.agent_id, p.name AS asked_by, q.asked_at, m.content_markdown AS question_text, m.seq,
  (SELECT count(*) FROM answers a WHERE a.question_id = q.question_id) AS answers_count
FROM questions q JOIN messages m ON m.message_id = q.question_id LEFT JOIN peers p ON p.peer_id = q.asked_by_id
WHERE q.topic_id = :topic_id AND q.status = 'pending'
ORDER BY q.asked_at LIMIT :limit;

-- name: unaccepted_notices
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.room_id = :room_id AND e.state <> 'accepted' AND e.event_type IN ('HANDOFF', 'BLOCKED')
ORDER BY e.number LIMIT :limit;

-- name: unread_of
-- How many messages of an agent these others have not read on a topic, by the numbers of its own messages.
SELECT p.agent_id,
  COALESCE((SELECT o.own_seq FROM messages o WHERE o.sender_id = me.peer_id ORDER BY o.seq DESC LIMIT 1), 0)
  - COALESCE(
    (SELECT o.own_seq FROM messages o WHERE o.sender_id = me.peer_id AND o.seq <= c.last_seq
     ORDER BY o.seq DESC LIMIT 1),
    (SELECT o.own_seq - 1 FROM messages o WHERE o.sender_id = me.peer_id ORDER BY o.seq LIMIT 1), 0) AS unread
FROM peers me JOIN peers p ON p.agent_id IN :agent_ids AND p.topic_id = me.topic_id AND p.is_own = 1
JOIN cursors c ON c.peer_id = p.peer_id
WHERE me.agent_id = :agent_id AND me.topic_id = :topic_id AND me.is_own = 1 AND p.agent_id <> me.agent_id;

-- name: waits_of_room
-- Since when members wait. A wait begins anew after a turn, as far as the latest events of the room show.
SELECT m.agent_id, CASE WHEN e.ended_at > m.waiting_since THEN e.ended_at ELSE m.waiting_since END AS since
FROM room_members m LEFT JOIN (
  SELECT from_agent_id AS agent_id, max(created_at) AS ended_at FROM (
    SELECT from_agent_id, event_type, created_at FROM room_events WHERE room_id = :room_id
    ORDER BY event_seq DESC LIMIT :limit
  ) latest WHERE event_type IN ('release', 'pass') GROUP BY from_agent_id
) e ON e.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.is_gone = 0 AND m.waiting_since IS NOT NULL;
