-- name: find_topic
SELECT * FROM topics WHERE topic_id = :topic_id;

-- name: newest_topic_named
SELECT * FROM topics WHERE name = :name AND status = :status
ORDER BY created_at DESC, topic_id DESC LIMIT 1;

-- name: topics_newest_first
SELECT t.*, s.next_seq - 1 - s.pruned_seq AS message_count
FROM topics t JOIN topic_seq s ON s.topic_id = t.topic_id
WHERE t.status IN :statuses AND t.created_at <= :moment AND (t.created_at < :moment OR t.topic_id < :after)
ORDER BY t.created_at DESC, t.topic_id DESC LIMIT :limit;

-- name: insert_topic
INSERT INTO topics (topic_id, name, created_at, metadata_json, mode)
VALUES (:topic_id, :name, :now, :metadata_json, :mode);

-- name: insert_home
-- The topic of a room, as old as the room.
INSERT INTO topics (topic_id, name, created_at, mode)
SELECT topic_id, canonical_path, created_at, 'home' FROM path_rooms WHERE topic_id = :topic_id;

-- name: insert_home_seq
INSERT INTO topic_seq (topic_id, updated_at) SELECT topic_id, created_at FROM topics WHERE topic_id = :topic_id;

-- name: insert_topic_seq
INSERT INTO topic_seq (topic_id, updated_at) VALUES (:topic_id, :now);

-- name: close_topic
UPDATE topics SET status = 'closed', closed_at = :now, close_reason = :reason
WHERE topic_id = :topic_id AND status = 'open';

-- name: rename_topic
UPDATE topics SET name = :name WHERE topic_id = :topic_id;
