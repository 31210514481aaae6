-- A reservation keeps its scope as it was given, and history can be read by work item (bead).

ALTER TABLE reservations ADD COLUMN given TEXT;

-- Finds the work items of an agent that hands over, and everything about a work item.
CREATE INDEX reservations_working_idx ON reservations (agent_id, room_id, number)
WHERE state = 'active' AND bead_id IS NOT NULL;
CREATE INDEX reservations_bead_idx ON reservations (bead_id, room_id) WHERE bead_id IS NOT NULL;
CREATE INDEX protocol_events_bead_idx ON protocol_events (bead_id, room_id) WHERE bead_id IS NOT NULL;
