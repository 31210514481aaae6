-- name: next_peer
SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'peers'), 0) + 1 AS peer_id;
