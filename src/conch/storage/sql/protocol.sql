-- name: insert_protocol_event
INSERT INTO protocol_events
  (event_id, room_id, event_type, bead_id, from_agent_id, from_agent, to_agent_id, to_agent, scope, payload_json,
   handoff_event_seq, created_at, caused_by, priority)
VALUES
  (:event_id, :room_id, :event_type,
   -- A handoff of the stick is about the work item that its holder reserved files for last.
   COALESCE(:bead_id, (
     SELECT r.bead_id FROM reservations r
     WHERE r.agent_id = :holder_id AND r.room_id = :room_id AND r.state = 'active' AND r.bead_id IS NOT NULL
       AND r.expires_at > :created_at
     ORDER BY r.number DESC LIMIT 1
   )),
   :from_agent_id, :from_agent, :to_agent_id, :to_agent, :scope,
   :payload_json, :handoff_event_seq, :created_at, :caused_by, :priority);

-- name: unread_protocol_event
-- The unread notice that a new one would repeat.
SELECT event_id FROM protocol_events
WHERE to_agent_id = :to_agent_id AND caused_by = :caused_by AND state = 'unread' AND event_type = :event_type
  AND COALESCE(scope, '') = COALESCE(:scope, '') AND room_id = :room_id
  AND COALESCE(bead_id, '') = COALESCE(:bead_id, '') AND payload_json = :payload_json
LIMIT 1;

-- name: repeat_protocol_event
UPDATE protocol_events SET times = times + 1, latest_at = :now WHERE event_id = :event_id;

-- name: earlier_protocol_event
-- The n-th newest notice that counts, within a span of time.
SELECT created_at FROM protocol_events
WHERE to_agent_id = :to_agent_id AND caused_by = :caused_by AND created_at > :now - :span AND created_at <= :now
  AND priority > 0
ORDER BY created_at DESC LIMIT 1 OFFSET :skipped;

-- name: find_protocol_event
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.event_id = :event_id;

-- name: inbox
SELECT e.*, r.canonical_path FROM protocol_events e JOIN path_rooms r ON r.room_id = e.room_id
WHERE e.to_agent_id = :agent_id AND e.room_id = :room_id AND e.state = :state
  AND (e.priority, e.number) > (:priority, :number)
  AND (:bead_id = '' OR e.bead_id = :bead_id OR EXISTS (
    SELECT 1 FROM reservations r
    WHERE e.handoff_event_seq IS NOT NULL AND r.bead_id = :bead_id AND r.room_id = e.room_id
      AND r.agent_id = e.from_agent_id AND r.created_at <= e.created_at
      AND r.expires_at > e.created_at AND COALESCE(r.ended_at, r.expires_at) > e.created_at
  ))
ORDER BY e.priority, e.number LIMIT :limit;

-- name: mark_seen
UPDATE protocol_events SET state = 'seen', seen_at = :now WHERE event_id = :event_id AND state = 'unread';

-- name: mark_accepted
UPDATE protocol_events SET state = 'accepted', accepted_at = :now, seen_at = COALESCE(seen_at, :now)
WHERE event_id = :event_id AND state <> 'accepted';

-- name: accept_handoff
UPDATE protocol_events
SET state = 'accepted', accepted_at = :now, seen_at = COALESCE(seen_at, :now), to_agent_id = :agent_id, to_agent = :name
WHERE handoff_event_seq = :event_seq AND state <> 'accepted';

-- name: reopen_handoff
UPDATE protocol_events
SET state = 'unread', accepted_at = NULL, seen_at = NULL, shown_at = NULL, to_agent_id = :agent_id, to_agent = :name
WHERE handoff_event_seq = :event_seq AND accepted_at = :claimed_at;

-- name: offer_handoff
-- The notice of a handoff that goes to another agent than at first, or to nobody in particular.
UPDATE protocol_events
SET state = 'unread', seen_at = NULL, shown_at = NULL, to_agent_id = :agent_id, to_agent = :name
WHERE handoff_event_seq = :event_seq AND state <> 'accepted';

-- name: move_protocol_events
UPDATE protocol_events SET to_agent_id = :to_agent_id, shown_at = NULL
WHERE to_agent_id = :from_agent_id AND room_id = :room_id AND state <> 'accepted';
