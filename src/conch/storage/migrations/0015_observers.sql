-- Whether a member has a place in the sequence. People have one only if they ask for it.

ALTER TABLE room_members ADD COLUMN takes_turns BIGINT NOT NULL DEFAULT 1;

UPDATE room_members SET takes_turns = 0 WHERE agent_id LIKE 'human:%';

-- Every reply to an agent with unread messages looks for those that ask it to hand over the stick. They are few.
CREATE INDEX messages_nudge_idx ON messages (message_type, topic_id, seq) WHERE message_type = 'nudge';
