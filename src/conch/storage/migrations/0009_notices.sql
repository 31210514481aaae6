-- A repeated notice is stored once, with how often it came. The inbox is ordered by priority, and notices are counted
-- by the agent that caused them. `steps.py` fills in the priority of older notices.

ALTER TABLE protocol_events ADD COLUMN caused_by TEXT;
ALTER TABLE protocol_events ADD COLUMN priority BIGINT NOT NULL DEFAULT 1;
ALTER TABLE protocol_events ADD COLUMN times BIGINT NOT NULL DEFAULT 1;
ALTER TABLE protocol_events ADD COLUMN latest_at BIGINT;

DROP INDEX protocol_events_inbox_idx;
CREATE INDEX protocol_events_inbox_idx ON protocol_events (to_agent_id, room_id, state, priority, number);
-- Finds the notice that a new one repeats, and how many an agent has caused lately. Few notices have a cause.
CREATE INDEX protocol_events_unread_idx ON protocol_events (to_agent_id, caused_by, event_type, COALESCE(scope, ''))
WHERE caused_by IS NOT NULL AND state = 'unread';
CREATE INDEX protocol_events_cause_idx ON protocol_events (to_agent_id, caused_by, created_at)
WHERE caused_by IS NOT NULL;
