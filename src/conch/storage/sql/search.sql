-- Searches build the indexes from the messages; writing a message never does.

-- name: topics_to_index
SELECT behind.topic_id, behind.through_seq, behind.last_seq
FROM (
  SELECT t.topic_id, coalesce(p.through_seq, 0) AS through_seq,
    (SELECT max(m.seq) FROM messages m WHERE m.topic_id = t.topic_id) AS last_seq
  FROM topics t LEFT JOIN index_progress p ON p.kind = :kind AND p.topic_id = t.topic_id
  WHERE CAST(:topic_id AS TEXT) IS NULL OR t.topic_id = :topic_id
) behind
WHERE behind.last_seq > behind.through_seq;

-- name: messages_to_index
SELECT number, seq, sender_id, message_type, substr(content_markdown, 1, :longest) AS text
FROM messages
WHERE topic_id = :topic_id AND seq > :after AND seq <= :through AND number > :oldest
ORDER BY seq LIMIT :most;

-- name: newest_number
SELECT coalesce(max(number), 0) AS number FROM messages;

-- name: index_progress
SELECT topic_id, through_seq FROM index_progress WHERE kind = :kind;

-- name: topic_progress
SELECT through_seq FROM index_progress WHERE kind = :kind AND topic_id = :topic_id;

-- name: set_topic_progress
INSERT INTO index_progress (kind, topic_id, through_seq) VALUES (:kind, :topic_id, :through)
ON CONFLICT (kind, topic_id) DO UPDATE SET through_seq = excluded.through_seq;

-- name: insert_vector
INSERT INTO index_vectors (model, number, vector) VALUES (:model, :number, :vector);

-- name: vectors_of_topic
SELECT m.number, m.sender_id, m.message_type, m.created_at, v.vector
FROM messages m JOIN index_vectors v ON v.model = :model AND v.number = m.number
WHERE m.topic_id = :topic_id AND m.seq > :after AND m.seq <= :through AND m.number > :oldest;

-- name: found_messages
SELECT m.number, m.topic_id, t.name AS topic_name, m.message_id, m.seq, m.message_type, m.created_at, m.content_markdown,
  p.name AS sender, p.agent_id AS sender_agent_id
FROM messages m JOIN topics t ON t.topic_id = m.topic_id LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.number IN :numbers;

-- name: forget_progress
DELETE FROM index_progress;

-- name: forget_vectors
DELETE FROM index_vectors;
