-- What an agent was shown is in `marks` alone. Before, hooks kept a mark of their own beside each cursor.

CREATE TABLE new_marks (
  agent_id TEXT NOT NULL REFERENCES agents (agent_id),
  kind TEXT NOT NULL,
  place TEXT NOT NULL,
  through BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (agent_id, kind, place),
  CHECK (kind IN ('all', 'takeover', 'to_you'))
);
INSERT INTO new_marks SELECT agent_id, kind, place, through, updated_at FROM marks;
INSERT INTO new_marks
SELECT p.agent_id, 'to_you', p.topic_id, max(c.shown_seq), max(c.updated_at)
FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
WHERE c.shown_seq > 0 AND p.agent_id IS NOT NULL GROUP BY p.agent_id, p.topic_id;
DROP TABLE marks;
ALTER TABLE new_marks RENAME TO marks;
ALTER TABLE cursors DROP COLUMN shown_seq;
