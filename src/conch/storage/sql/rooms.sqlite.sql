-- name: members_of_rooms
-- The first members of each room, without those marked as gone. In an old room, these are most of them. The bound
-- depends on the room alone, so that it is found once for each room and not for each member.
SELECT m.*, a.last_seen_at
FROM path_rooms r JOIN room_members m ON m.room_id = r.room_id JOIN agents a ON a.agent_id = m.agent_id
WHERE r.room_id IN :room_ids AND m.is_gone = 0 AND m.ordinal < COALESCE((
  SELECT l.ordinal FROM room_members l WHERE l.room_id = r.room_id AND l.is_gone = 0
  ORDER BY l.ordinal LIMIT 1 OFFSET :most
), 9223372036854775807)
ORDER BY m.room_id, m.ordinal;
