-- Every reply says what waits for the agent. These find it without reading messages.

-- Which message of its sender a message is. Two of these numbers tell how many of the messages after a cursor are a
-- peer's own.
ALTER TABLE messages ADD COLUMN own_seq BIGINT NOT NULL DEFAULT 0;

UPDATE messages SET own_seq = counted.place
FROM (SELECT number, row_number() OVER (PARTITION BY sender_id ORDER BY seq) AS place FROM messages) counted
WHERE counted.number = messages.number;

CREATE INDEX messages_sender_idx ON messages (sender_id, seq, own_seq);

-- The names in `metadata.to`, as they were written. A name may mean a peer that joins later.
CREATE TABLE message_addressees (
  addressee TEXT NOT NULL,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  seq BIGINT NOT NULL,
  sender_id BIGINT REFERENCES peers (peer_id),
  PRIMARY KEY (addressee, topic_id, seq)
);

CREATE INDEX protocol_events_mail_idx ON protocol_events (to_agent_id, number) WHERE state = 'unread';
