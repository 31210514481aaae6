-- A sender is shown with its current name. Every message has a sender, so JOIN would find the same rows. LEFT JOIN keeps
-- the planner from starting with the peers.

-- name: take_seqs
UPDATE topic_seq SET next_seq = next_seq + :count, updated_at = :now WHERE topic_id = :topic_id
RETURNING next_seq;

-- name: move_seqs
-- The same for a caller that knows the number already.
UPDATE topic_seq SET next_seq = next_seq + :count, updated_at = :now WHERE topic_id = :topic_id;

-- name: insert_message
INSERT INTO messages
  (message_id, topic_id, seq, sender_id, message_type, reply_to, content_markdown, metadata_json, client_message_id,
   created_at, own_seq)
VALUES
  (:message_id, :topic_id, :seq, :sender_id, :message_type, :reply_to, :content_markdown, :metadata_json,
   :client_message_id, :created_at,
   COALESCE((SELECT own_seq FROM messages WHERE sender_id = :sender_id ORDER BY seq DESC LIMIT 1), 0) + 1);

-- name: insert_addressee
INSERT INTO message_addressees (addressee, topic_id, seq, sender_id) VALUES (:addressee, :topic_id, :seq, :sender_id);

-- name: find_message
SELECT message_id, topic_id FROM messages WHERE message_id = :message_id;

-- name: message_numbers
SELECT message_id, seq FROM messages WHERE message_id IN :message_ids;

-- name: message_sent_as
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.topic_id = :topic_id AND m.sender_id = :sender_id AND m.client_message_id = :client_message_id;

-- name: messages_after
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.topic_id = :topic_id AND m.seq > :after ORDER BY m.seq LIMIT :limit;

-- name: messages_of_others_after
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.topic_id = :topic_id AND m.seq > :after AND m.sender_id <> :peer_id ORDER BY m.seq LIMIT :limit;

-- name: messages_since
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.topic_id = :topic_id AND m.seq > :after AND m.created_at >= :since ORDER BY m.seq LIMIT :limit;

-- name: latest_messages
SELECT m.message_id, m.topic_id, m.seq, p.name AS sender, m.message_type, m.reply_to, m.content_markdown, m.metadata_json,
  m.client_message_id, m.created_at, p.agent_id AS sender_agent_id
FROM messages m LEFT JOIN peers p ON p.peer_id = m.sender_id
WHERE m.topic_id = :topic_id AND m.seq <= :through ORDER BY m.seq DESC LIMIT :limit;

-- name: more_than_acks_after
SELECT seq FROM messages
WHERE topic_id = :topic_id AND seq > :after AND message_type <> 'ack' AND sender_id <> :peer_id
ORDER BY seq LIMIT 1;
