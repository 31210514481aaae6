-- name: find_room
SELECT * FROM path_rooms WHERE room_id = :room_id;

-- name: rooms_at
SELECT * FROM path_rooms WHERE canonical_path IN :paths AND state <> 'closed';

-- name: all_rooms
SELECT * FROM path_rooms ORDER BY canonical_path, created_at;

-- name: insert_room
-- The condition reads the table, not its index: in a damaged store, the index may have lost a room that is there.
INSERT INTO path_rooms (room_id, canonical_path, topic_id, state, created_at, updated_at)
SELECT :room_id, :canonical_path, :topic_id, 'idle', made.at, made.at FROM (SELECT CAST(:now AS BIGINT) AS at) AS made
WHERE NOT EXISTS (SELECT 1 FROM path_rooms WHERE canonical_path || '' = :canonical_path AND state <> 'closed')
ON CONFLICT (canonical_path) WHERE state <> 'closed' DO NOTHING;

-- name: update_room
UPDATE path_rooms SET
  sequence_index = :sequence_index,
  owner = :owner,
  reserved_for = :reserved_for,
  pending_handoff_event_seq = :pending_handoff_event_seq,
  turn_id = :turn_id,
  lease_id = :lease_id,
  lease_expires_at = :lease_expires_at,
  claim_expires_at = :claim_expires_at,
  state = :state,
  policy_json = :policy_json,
  last_event_seq = :last_event_seq,
  updated_at = :updated_at
WHERE room_id = :room_id;

-- name: extend_lease
UPDATE path_rooms SET lease_expires_at = :lease_expires_at, updated_at = :now
WHERE room_id = :room_id AND lease_id = :lease_id;

-- name: room_members
SELECT m.*, a.last_seen_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
WHERE m.room_id = :room_id
ORDER BY m.ordinal;

-- name: some_members
SELECT m.*, a.last_seen_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.agent_id IN :agent_ids;

-- name: member_called
SELECT m.*, a.last_seen_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
WHERE m.name = :name AND m.room_id = :room_id;

-- name: members_from
SELECT m.*, a.last_seen_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.is_gone = 0 AND m.ordinal > :after AND m.ordinal <= :through
  AND a.last_seen_at > :now - :within AND (:host_id = '' OR m.host_id = :host_id)
ORDER BY m.ordinal LIMIT :limit;

-- name: members_there
-- Members after a place that may be there, and these agents. In a large room, most of the others are silent.
SELECT m.*, a.last_seen_at
FROM room_members m JOIN agents a ON a.agent_id = m.agent_id
WHERE m.room_id = :room_id AND m.is_gone = 0 AND m.ordinal > :after
  AND (a.last_seen_at > :since OR m.host_id = :host_id OR m.agent_id IN :agent_ids)
ORDER BY m.ordinal;

-- name: gone_holders
-- Members marked as gone that hold a reservation, the stick or an offer of it. It does not read all that are marked.
SELECT m.*, a.last_seen_at
FROM (
  SELECT room_id, agent_id FROM reservations WHERE room_id IN :room_ids AND state = 'active' AND expires_at > :now
  UNION SELECT room_id, COALESCE(owner, reserved_for) FROM path_rooms WHERE room_id IN :room_ids
) holding
JOIN room_members m ON m.room_id = holding.room_id AND m.agent_id = holding.agent_id AND m.is_gone = 1
JOIN agents a ON a.agent_id = m.agent_id;

-- name: reserving_agents
SELECT DISTINCT room_id, agent_id FROM reservations
WHERE room_id IN :room_ids AND state = 'active' AND expires_at > :now;

-- name: count_members
SELECT count(*) AS total FROM (
  SELECT 1 FROM room_members WHERE room_id = :room_id AND is_gone = :is_gone LIMIT :most
) counted;

-- name: last_place
SELECT max(ordinal) AS ordinal FROM (
  SELECT max(ordinal) AS ordinal FROM room_members WHERE room_id = :room_id AND is_gone = 0
  UNION ALL
  SELECT max(ordinal) FROM room_members WHERE room_id = :room_id AND is_gone = 1
) places;

-- name: mark_gone
-- An agent that no longer depends on a process has none.
UPDATE room_members SET is_gone = 1 WHERE room_id = :room_id AND agent_id IN :agent_ids AND pid IS NOT NULL;

-- name: count_gone
SELECT r.room_id, (
  SELECT count(*) FROM (SELECT 1 FROM room_members m WHERE m.room_id = r.room_id AND m.is_gone = 1 LIMIT :most) counted
) AS total
FROM path_rooms r WHERE r.room_id IN :room_ids;

-- name: insert_member
INSERT INTO room_members
  (room_id, agent_id, name, ordinal, takes_turns, joined_at, host_id, boot_id, pid, process_started_at, session_kind,
   display_name)
VALUES
  (:room_id, :agent_id, :name, :ordinal, :takes_turns, :now, :host_id, :boot_id, :pid, :process_started_at, :session_kind,
   :display_name);

-- name: update_member_process
UPDATE room_members SET
  host_id = :host_id, boot_id = :boot_id, pid = :pid, process_started_at = :process_started_at,
  session_kind = :session_kind, display_name = :display_name, is_gone = 0
WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: update_ordinal
UPDATE room_members SET ordinal = :ordinal WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: take_turns
UPDATE room_members SET takes_turns = 1 WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: delete_member
DELETE FROM room_members WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: touch_agent
UPDATE agents SET last_seen_at = :now WHERE agent_id = :agent_id;

-- name: member_seats
SELECT agent_id, ordinal, joined_at, takes_turns FROM room_members WHERE room_id = :room_id;

-- name: find_wait
SELECT waited_at FROM room_members WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: note_wait
-- If the member was still waiting at `soon` or later, this wait continues that one.
UPDATE room_members SET
  waiting_since = CASE WHEN waited_at >= :soon THEN waiting_since ELSE :now END, waited_at = :now
WHERE room_id = :room_id AND agent_id = :agent_id;

-- name: count_owned_rooms
SELECT count(*) AS number FROM path_rooms WHERE state = 'owned';
