-- Peers get ids, and messages, cursors and questions refer to them by id. A name is only a label.

CREATE TABLE peers (
  peer_id $serial_key,
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  name TEXT NOT NULL,
  agent_id TEXT REFERENCES agents (agent_id),
  is_own BIGINT NOT NULL DEFAULT 0,
  reclaim_token_hash TEXT,
  created_at BIGINT NOT NULL,
  last_claimed_at BIGINT NOT NULL
);

CREATE INDEX peers_name_idx ON peers (name, topic_id);
CREATE INDEX peers_agent_idx ON peers (agent_id, topic_id);

-- An agent's own peer needs no token to read and write. An agent has at most one per topic.
CREATE UNIQUE INDEX peers_own_idx ON peers (agent_id, topic_id) WHERE is_own = 1;

INSERT INTO peers (topic_id, name, agent_id, is_own, reclaim_token_hash, created_at, last_claimed_at)
SELECT topic_id, agent_name, agent_id, is_own, reclaim_token_hash, created_at, last_claimed_at
FROM agent_name_reservations WHERE renamed_to IS NULL
ORDER BY created_at, topic_id, agent_name;

DROP INDEX agent_name_reservations_own_idx;
DROP INDEX agent_name_reservations_renamed_to_idx;
ALTER TABLE agent_name_reservations RENAME TO former_reservations;

-- Which peer a name means. This lists the current name of every peer and its former names.
CREATE TABLE agent_name_reservations (
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  agent_name TEXT NOT NULL,
  peer_id BIGINT NOT NULL REFERENCES peers (peer_id),
  PRIMARY KEY (agent_name, topic_id)
);

CREATE INDEX agent_name_reservations_peer_idx ON agent_name_reservations (peer_id);

INSERT INTO agent_name_reservations (topic_id, agent_name, peer_id)
SELECT r.topic_id, r.agent_name, p.peer_id
FROM former_reservations r JOIN peers p ON p.topic_id = r.topic_id AND p.name = COALESCE(r.renamed_to, r.agent_name);

DROP INDEX cursors_topic_updated_at_idx;
ALTER TABLE cursors RENAME TO former_cursors;

CREATE TABLE cursors (
  peer_id BIGINT PRIMARY KEY REFERENCES peers (peer_id),
  topic_id TEXT NOT NULL REFERENCES topics (topic_id),
  last_seq BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL,
  resets BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX cursors_topic_updated_at_idx ON cursors (topic_id, updated_at);

INSERT INTO cursors (peer_id, topic_id, last_seq, updated_at, resets)
SELECT p.peer_id, c.topic_id, c.last_seq, c.updated_at, c.resets
FROM former_cursors c JOIN peers p ON p.topic_id = c.topic_id AND p.name = c.agent_name;

DROP TABLE former_cursors;

-- Messages under a name up to `after_seq` are from another peer that had the name before. That peer and conch itself
-- are known only by name, so they get a peer without an agent.
ALTER TABLE messages ADD COLUMN sender_id BIGINT REFERENCES peers (peer_id);

UPDATE messages SET sender_id = (
  SELECT n.peer_id
  FROM agent_name_reservations n
  JOIN former_reservations r ON r.topic_id = n.topic_id AND r.agent_name = n.agent_name
  WHERE n.topic_id = messages.topic_id AND n.agent_name = messages.sender AND r.after_seq < messages.seq
);

INSERT INTO peers (topic_id, name, created_at, last_claimed_at)
SELECT topic_id, sender, min(created_at), min(created_at) FROM messages WHERE sender_id IS NULL
GROUP BY topic_id, sender;

UPDATE messages SET sender_id = (
  SELECT max(p.peer_id) FROM peers p
  WHERE p.topic_id = messages.topic_id AND p.name = messages.sender AND p.agent_id IS NULL
)
WHERE sender_id IS NULL;

DROP INDEX messages_client_message_id_idx;
ALTER TABLE messages DROP COLUMN sender;

CREATE UNIQUE INDEX messages_client_message_id_idx ON messages (topic_id, sender_id, client_message_id)
WHERE client_message_id IS NOT NULL;

-- A question belongs to the peer that now has the asker's name. An adoption may have moved that name.
ALTER TABLE questions ADD COLUMN asked_by_id BIGINT REFERENCES peers (peer_id);

UPDATE questions SET asked_by_id = COALESCE(
  (SELECT n.peer_id FROM agent_name_reservations n
   WHERE n.topic_id = questions.topic_id AND n.agent_name = questions.asked_by),
  (SELECT m.sender_id FROM messages m WHERE m.message_id = questions.question_id)
);

ALTER TABLE questions DROP COLUMN asked_by;

DROP INDEX answers_question_answered_at_idx;
ALTER TABLE answers RENAME TO former_answers;

CREATE TABLE answers (
  question_id TEXT NOT NULL REFERENCES questions (question_id),
  answered_by_id BIGINT NOT NULL REFERENCES peers (peer_id),
  answer_id TEXT NOT NULL UNIQUE,
  answered_at BIGINT NOT NULL,
  PRIMARY KEY (question_id, answered_by_id)
);

CREATE INDEX answers_question_answered_at_idx ON answers (question_id, answered_at);

INSERT INTO answers (question_id, answered_by_id, answer_id, answered_at)
SELECT a.question_id, m.sender_id, a.answer_id, a.answered_at
FROM former_answers a JOIN messages m ON m.message_id = a.answer_id;

-- An agent that resumed another one counts as the author of its answers, at most one for each question.
UPDATE answers SET answered_by_id = (
  SELECT n.peer_id FROM former_answers f
  JOIN questions q ON q.question_id = f.question_id
  JOIN agent_name_reservations n ON n.topic_id = q.topic_id AND n.agent_name = f.answered_by
  WHERE f.answer_id = answers.answer_id
)
WHERE answer_id IN (
  SELECT min(f.answer_id) FROM former_answers f
  JOIN questions q ON q.question_id = f.question_id
  JOIN agent_name_reservations n ON n.topic_id = q.topic_id AND n.agent_name = f.answered_by
  WHERE NOT EXISTS (
    SELECT 1 FROM answers own WHERE own.question_id = f.question_id AND own.answered_by_id = n.peer_id
  )
  GROUP BY f.question_id, n.peer_id
);

DROP TABLE former_answers;
DROP TABLE former_reservations;

-- The word index now refers to senders by id, so it is rebuilt.
DELETE FROM index_progress WHERE kind = 'words';

-- The names of an event's agents when it happened. `steps.py` fills them in for older events.
ALTER TABLE room_events ADD COLUMN from_agent TEXT;
ALTER TABLE room_events ADD COLUMN to_agent TEXT;
