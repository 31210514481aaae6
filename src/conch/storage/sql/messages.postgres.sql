-- SQLite uses several statements for this, because there a statement costs no round trip.

-- name: post_message
-- Append one message, if the topic is open and the peer is on it. Returns no row for a repeated `client_message_id`.
-- With an `agent_id`, the peer has to be the agent's own. All others on the topic wait for this, so it reads little.
WITH taken AS (
  UPDATE topic_seq SET next_seq = topic_seq.next_seq + 1, updated_at = CAST(:now AS BIGINT)
  FROM topics t, peers p JOIN cursors c ON c.peer_id = p.peer_id
  WHERE topic_seq.topic_id = :topic_id AND t.topic_id = :topic_id AND t.status = 'open'
    AND p.topic_id = :topic_id AND p.peer_id = :peer_id
    AND (CAST(:agent_id AS TEXT) IS NULL OR p.agent_id = :agent_id AND p.is_own = 1)
    AND NOT EXISTS (
      SELECT 1 FROM messages
      WHERE topic_id = :topic_id AND sender_id = :peer_id AND client_message_id = :client_message_id
    )
  RETURNING topic_seq.next_seq - 1 AS seq, topic_seq.updated_at AS created_at, c.last_seq, c.resets, c.updated_at, p.name
), posted AS (
  INSERT INTO messages
    (message_id, topic_id, seq, sender_id, message_type, content_markdown, metadata_json, client_message_id,
     created_at, own_seq)
  SELECT :message_id, :topic_id, seq, :peer_id, :message_type, :content_markdown, :metadata_json,
    :client_message_id, created_at,
    COALESCE((SELECT own_seq FROM messages WHERE sender_id = :peer_id ORDER BY seq DESC LIMIT 1), 0) + 1
  FROM taken
)
SELECT * FROM taken;

-- name: posted_message
-- What `post_message` returned, if its answer was lost and it ran again.
SELECT m.seq, m.created_at, c.last_seq, c.resets, c.updated_at, p.name
FROM messages m JOIN peers p ON p.peer_id = m.sender_id JOIN cursors c ON c.peer_id = p.peer_id
WHERE m.message_id = :message_id;
