-- What happened in all rooms and topics, in the order of its numbers.

-- name: feed_events
SELECT * FROM room_events WHERE event_seq > :after ORDER BY event_seq LIMIT :limit;

-- name: feed_messages
SELECT m.number, m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown,
  m.created_at, p.agent_id AS sender_agent_id, r.room_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id LEFT JOIN path_rooms r ON r.topic_id = m.topic_id
WHERE m.number > :after ORDER BY m.number LIMIT :limit;

-- name: feed_activity
SELECT * FROM room_activity WHERE number > :after ORDER BY number LIMIT :limit;

-- name: last_events
SELECT event_seq AS number, created_at FROM room_events ORDER BY event_seq DESC LIMIT :limit;

-- name: last_messages
SELECT number, created_at FROM messages ORDER BY number DESC LIMIT :limit;

-- name: last_activity
SELECT number, created_at FROM room_activity ORDER BY number DESC LIMIT :limit;

-- name: latest_open_rooms
SELECT room_id, topic_id FROM path_rooms WHERE state <> 'closed' ORDER BY updated_at DESC, room_id LIMIT :limit;

-- name: latest_open_topics
SELECT topic_id FROM topics WHERE status = 'open' AND mode <> 'home' ORDER BY created_at DESC, topic_id LIMIT :limit;
