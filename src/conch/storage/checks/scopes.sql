-- A key inside another one follows it, before the key with the next character after the slash.

-- check: reservations
-- The active reservations {reservation_id} of {agent_id} ({scope}) and {other_id} of {other_agent_id} ({other_scope}) in room {room_id} overlap.
SELECT a.room_id, a.reservation_id, a.agent_id, a.scope, b.reservation_id AS other_id,
  b.agent_id AS other_agent_id, b.scope AS other_scope
FROM reservations a JOIN reservations b
  ON b.room_id = a.room_id AND b.state = 'active' AND b.agent_id <> a.agent_id
  AND b.scope_key >= a.scope_key AND b.scope_key < substr(a.scope_key, 1, length(a.scope_key) - 1) || '0'
WHERE a.state = 'active' AND (b.scope_key > a.scope_key OR b.number > a.number);

-- check: reservations scope
-- Reservation {reservation_id} has the key {scope_key}, which is not a key for {scope}.
SELECT reservation_id, scope_key, scope FROM reservations;

-- check: reservations
-- The active reservation {reservation_id} in room {room_id} belongs to {agent_id}, who is not a member of the room.
SELECT r.reservation_id, r.room_id, r.agent_id
FROM reservations r LEFT JOIN room_members m ON m.room_id = r.room_id AND m.agent_id = r.agent_id
WHERE r.state = 'active' AND m.agent_id IS NULL;

-- check: reservations
-- Reservation {reservation_id} expires before it was made.
SELECT reservation_id, created_at, expires_at FROM reservations WHERE expires_at <= created_at;

-- Every change of a reservation is in room_activity, with the scope and the time until which it holds.

-- check: room_activity
-- Nothing in room_activity says that reservation {reservation_id} in room {room_id} was made.
SELECT r.reservation_id, r.room_id
FROM reservations r LEFT JOIN room_activity t
  ON t.subject_id = r.reservation_id AND t.room_id = r.room_id AND t.kind = 'reserved'
WHERE t.number IS NULL;

-- check: reservations
-- Reservation {reservation_id} in room {room_id} was made by another agent, or at another time, than room_activity says.
SELECT r.reservation_id, r.room_id, r.agent_id, r.created_at
FROM reservations r JOIN room_activity t
  ON t.subject_id = r.reservation_id AND t.room_id = r.room_id AND t.kind = 'reserved'
WHERE t.created_at <> r.created_at OR (t.agent_id <> r.agent_id AND NOT EXISTS (
  SELECT 1 FROM room_activity heir
  WHERE heir.room_id = r.room_id AND heir.kind = 'RESUME' AND heir.agent_id = r.agent_id
));

-- check: reservations grant
-- Reservation {reservation_id} in room {room_id} has another scope, or holds until another time, than room_activity says.
SELECT r.reservation_id, r.room_id, r.given, r.scope, r.expires_at, t.details_json
FROM reservations r JOIN (
  SELECT subject_id, room_id, max(number) AS number FROM room_activity WHERE kind IN ('reserved', 'renewed')
  GROUP BY subject_id, room_id
) latest ON latest.subject_id = r.reservation_id AND latest.room_id = r.room_id
JOIN room_activity t ON t.number = latest.number;

-- check: reservations
-- Reservation {reservation_id} in room {room_id} is {state}, but room_activity says otherwise.
SELECT r.reservation_id, r.room_id, r.state, r.ended_at
FROM reservations r LEFT JOIN (
  SELECT subject_id, room_id, min(kind) AS kind, min(created_at) AS created_at
  FROM room_activity WHERE kind IN ('released', 'expired') GROUP BY subject_id, room_id
) t ON t.subject_id = r.reservation_id AND t.room_id = r.room_id
WHERE COALESCE(t.kind, 'active') <> r.state OR COALESCE(t.created_at, 0) <> COALESCE(r.ended_at, 0);

-- check: reservations
-- Reservation {reservation_id} of room {room_id} shows an empty scope.
SELECT reservation_id, room_id FROM reservations WHERE given = '';
