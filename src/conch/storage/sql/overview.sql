-- What a person sees of a room. Everything is bounded, and found by an index.

-- name: latest_rooms
SELECT * FROM path_rooms WHERE state <> 'closed' OR :even_closed = 1
ORDER BY updated_at DESC, room_id LIMIT :limit;

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
-- How many of an agent's messages on a topic each of these others has not read. `own_seq` saves counting them.
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
-- Since when members wait. Only those seen lately can be waiting, because every wait is a sign of life. A wait begins at the
-- end of the member's last turn, if the latest events of the room show that turn.
SELECT m.agent_id, CASE WHEN e.ended_at > m.waiting_since THEN e.ended_at ELSE m.waiting_since END AS since
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id AND a.last_seen_at > :since LEFT JOIN (
  SELECT from_agent_id AS agent_id, max(created_at) AS ended_at FROM (
    SELECT from_agent_id, event_type, created_at FROM room_events WHERE room_id = :room_id
    ORDER BY event_seq DESC LIMIT :limit
  ) latest WHERE event_type IN ('release', 'pass') GROUP BY from_agent_id
) e ON e.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.is_gone = 0 AND m.waiting_since IS NOT NULL;

-- name: closed_connections
-- When the last connection of an agent was closed, if none is open now and the agent was not seen later.
SELECT c.agent_id, max(c.closed_at) AS closed_at FROM connections c JOIN agents a ON a.agent_id = c.agent_id
WHERE c.agent_id IN :agent_ids
GROUP BY c.agent_id, a.last_seen_at
HAVING count(c.closed_at) = count(*) AND max(c.closed_at) >= a.last_seen_at;

-- name: watched_processes
-- The processes of the members of open rooms. If there are too many, those of the latest rooms.
SELECT m.host_id, m.boot_id, m.pid, m.process_started_at
FROM path_rooms r JOIN room_members m ON m.room_id = r.room_id AND m.is_gone = 0
WHERE r.state <> 'closed' AND m.pid IS NOT NULL
ORDER BY r.updated_at DESC, m.ordinal LIMIT :limit;

-- name: next_lapse
-- When the next time runs out in an open room.
SELECT min(l.moment) AS moment FROM (
  SELECT lease_expires_at AS moment FROM path_rooms WHERE state <> 'closed'
  UNION ALL
  SELECT claim_expires_at FROM path_rooms WHERE state <> 'closed'
  UNION ALL
  SELECT v.expires_at FROM path_rooms r JOIN reservations v ON v.room_id = r.room_id AND v.state = 'active'
  WHERE r.state <> 'closed'
  UNION ALL
  SELECT q.asked_at + :unanswered_after
  FROM path_rooms r JOIN questions q ON q.topic_id = r.topic_id AND q.status = 'pending' WHERE r.state <> 'closed'
  UNION ALL
  SELECT e.created_at + :unaccepted_after
  FROM path_rooms r JOIN protocol_events e ON e.room_id = r.room_id AND e.state <> 'accepted'
  WHERE r.state <> 'closed' AND e.event_type IN ('HANDOFF', 'BLOCKED')
  UNION ALL
  SELECT a.last_seen_at + CAST(:stale_after AS BIGINT) * CASE WHEN a.last_seen_at + :stale_after > :now THEN 1 ELSE 2 END
  FROM path_rooms r JOIN room_members m ON m.room_id = r.room_id AND m.is_gone = 0
  JOIN agents a ON a.agent_id = m.agent_id WHERE r.state <> 'closed'
) l WHERE l.moment > :now;
