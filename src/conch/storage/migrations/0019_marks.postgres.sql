-- What an agent was shown is in `marks` alone. Before, hooks kept a mark of their own beside each cursor.

ALTER TABLE marks DROP CONSTRAINT marks_kind_check;
ALTER TABLE marks ADD CONSTRAINT marks_kind_check CHECK (kind IN ('all', 'takeover', 'to_you'));
INSERT INTO marks (agent_id, kind, place, through, updated_at)
SELECT p.agent_id, 'to_you', p.topic_id, max(c.shown_seq), max(c.updated_at)
FROM peers p JOIN cursors c ON c.peer_id = p.peer_id
WHERE c.shown_seq > 0 AND p.agent_id IS NOT NULL GROUP BY p.agent_id, p.topic_id;
ALTER TABLE cursors DROP COLUMN shown_seq;
