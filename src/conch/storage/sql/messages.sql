-- name: take_seqs
UPDATE topic_seq SET next_seq = next_seq + :count, updated_at = :now WHERE topic_id = :topic_id
RETURNING next_seq;

-- name: insert_message
INSERT INTO messages
  (message_id, topic_id, seq, sender, message_type, reply_to, content_markdown, metadata_json, client_message_id,
   created_at)
VALUES
  (:message_id, :topic_id, :seq, :sender, :message_type, :reply_to, :content_markdown, :metadata_json,
   :client_message_id, :created_at);

-- name: find_message
SELECT * FROM messages WHERE message_id = :message_id;

-- name: message_numbers
SELECT message_id, seq FROM messages WHERE message_id IN :message_ids;

-- name: message_sent_as
SELECT * FROM messages
WHERE topic_id = :topic_id AND sender IN :names AND client_message_id = :client_message_id;

-- name: messages_after
SELECT * FROM messages WHERE topic_id = :topic_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: messages_of_others_after
SELECT * FROM messages WHERE topic_id = :topic_id AND seq > :after AND (
  sender NOT IN :names OR seq <= (
    SELECT r.after_seq FROM agent_name_reservations r
    WHERE r.topic_id = messages.topic_id AND r.agent_name = messages.sender
  )
)
ORDER BY seq LIMIT :limit;

-- name: highest_seq
SELECT next_seq - 1 AS highest_seq FROM topic_seq WHERE topic_id = :topic_id;

-- name: messages_since
SELECT * FROM messages WHERE topic_id = :topic_id AND seq > :after AND created_at >= :since ORDER BY seq LIMIT :limit;

-- name: forget_keys
UPDATE messages SET client_message_id = NULL
WHERE topic_id = :topic_id AND sender = :sender AND client_message_id IS NOT NULL;

-- name: more_than_thanks_after
SELECT seq FROM messages
WHERE topic_id = :topic_id AND seq > :after AND message_type <> 'ack' AND sender NOT IN :names
ORDER BY seq LIMIT 1;
