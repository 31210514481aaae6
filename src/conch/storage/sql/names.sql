-- name: note_name
INSERT INTO name_skeletons (skeleton, name) VALUES (:skeleton, :name)
ON CONFLICT (skeleton, name) DO NOTHING;

-- name: anybody_like
SELECT k.name FROM name_skeletons k WHERE k.skeleton IN :skeletons LIMIT 1;

-- name: topic_like
SELECT k.name FROM name_skeletons k
WHERE k.skeleton IN :skeletons AND k.name <> :name AND EXISTS (SELECT 1 FROM topics t WHERE t.name = k.name)
LIMIT 1;

-- name: agent_like
SELECT k.name FROM name_skeletons k
WHERE k.skeleton IN :skeletons AND k.name <> :name AND (
  EXISTS (SELECT 1 FROM agents a WHERE a.name = k.name) OR EXISTS (SELECT 1 FROM agents a WHERE a.agent_id = k.name)
)
LIMIT 1;

-- name: name_of_another_like
-- A name that another agent has or had in a room or on a topic.
SELECT k.name FROM name_skeletons k
WHERE k.skeleton IN :skeletons AND (
  EXISTS (SELECT 1 FROM room_members m WHERE m.name = k.name AND m.agent_id <> :agent_id)
  OR EXISTS (
    SELECT 1 FROM agent_name_reservations n JOIN peers p ON p.peer_id = n.peer_id
    WHERE n.agent_name = k.name AND p.agent_id <> :agent_id
  )
)
LIMIT 1;

-- name: name_like_on_topic
SELECT k.name FROM name_skeletons k
WHERE k.skeleton IN :skeletons AND k.name <> :name AND (
  EXISTS (SELECT 1 FROM agent_name_reservations n WHERE n.agent_name = k.name AND n.topic_id = :topic_id)
  OR EXISTS (
    SELECT 1 FROM room_members m JOIN path_rooms r ON r.room_id = m.room_id
    WHERE m.name = k.name AND r.topic_id = :topic_id
  )
)
LIMIT 1;
