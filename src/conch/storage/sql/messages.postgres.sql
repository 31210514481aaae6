-- SQLite uses several statements for this, because there a statement costs no round trip.

-- name: post_message
-- Append one message, if the topic is open and the peer is on it. Running it again changes nothing and returns the same.
-- With an `agent_id`, the peer has to be the agent's own.
WITH standing AS (
  SELECT s.next_seq, c.last_seq, c.resets, c.updated_at, p.name,
    CAST(:now AS BIGINT) AS now
  FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id
  JOIN peers p ON p.topic_id = t.topic_id AND p.peer_id = :peer_id
  JOIN cursors c ON c.peer_id = p.peer_id
  WHERE t.topic_id = :topic_id AND t.status = 'open'
    AND (CAST(:agent_id AS TEXT) IS NULL OR p.agent_id = :agent_id AND p.is_own = 1)
), posted AS (
  INSERT INTO messages
    (message_id, topic_id, seq, sender_id, message_type, content_markdown, metadata_json, client_message_id,
     created_at, own_seq)
  SELECT :message_id, :topic_id, next_seq, :peer_id, :message_type, :content_markdown, :metadata_json,
    :client_message_id, now,
    COALESCE((SELECT own_seq FROM messages WHERE sender_id = :peer_id ORDER BY seq DESC LIMIT 1), 0) + 1
  FROM standing
  WHERE NOT EXISTS (SELECT 1 FROM messages WHERE message_id = :message_id) AND NOT EXISTS (
    SELECT 1 FROM messages
    WHERE topic_id = :topic_id AND sender_id = :peer_id AND client_message_id = :client_message_id
  )
  RETURNING seq, created_at
), taken AS (
  UPDATE topic_seq SET next_seq = posted.seq + 1, updated_at = posted.created_at FROM posted
  WHERE topic_seq.topic_id = :topic_id
), stored AS (
  SELECT seq, created_at FROM posted
  UNION ALL
  SELECT seq, created_at FROM messages WHERE message_id = :message_id
)
SELECT stored.seq, stored.created_at, next_seq, last_seq, resets, updated_at, name, now FROM stored, standing;
