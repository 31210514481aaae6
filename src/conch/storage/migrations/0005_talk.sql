-- A name that an agent had on a topic before it was renamed stays its own there: messages from it, and to it.
ALTER TABLE agent_name_reservations ADD COLUMN is_former BIGINT NOT NULL DEFAULT 0;

-- What was said up to here under a name, somebody said who had it before.
ALTER TABLE agent_name_reservations ADD COLUMN after_seq BIGINT NOT NULL DEFAULT 0;

CREATE INDEX agent_name_reservations_agent_idx ON agent_name_reservations (agent_id, topic_id);
