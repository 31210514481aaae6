-- A notice that must be accepted is mail until it is accepted, and any other one until it is seen.

DROP INDEX protocol_events_mail_idx;
CREATE INDEX protocol_events_mail_idx ON protocol_events (to_agent_id, number)
WHERE state = 'unread' OR (state = 'seen' AND payload_json LIKE '%"requires_ack": true%');
