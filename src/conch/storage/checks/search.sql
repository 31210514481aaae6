-- The search indexes cover each topic up to `through_seq`, and nothing more.

-- check: index_progress
-- The search index {kind} claims {through_seq} messages of topic {topic_id}, which has {last}.
SELECT p.kind, p.through_seq, p.topic_id, COALESCE(s.next_seq - 1, 0) AS last
FROM index_progress p LEFT JOIN topic_seq s ON s.topic_id = p.topic_id
WHERE s.topic_id IS NULL OR p.through_seq < 0 OR p.through_seq >= s.next_seq;

-- check: index_progress
-- The search index has an unknown part, {kind}.
SELECT DISTINCT kind FROM index_progress WHERE kind <> 'words' AND substr(kind, 1, 8) <> 'vectors:';

-- check: index_vectors
-- The search index {model} lacks message {message_id} of topic {topic_id}.
SELECT substr(p.kind, 9) AS model, m.message_id, m.topic_id
FROM index_progress p JOIN messages m ON m.topic_id = p.topic_id AND m.seq <= p.through_seq
LEFT JOIN index_vectors v ON v.model = substr(p.kind, 9) AND v.number = m.number
WHERE substr(p.kind, 1, 8) = 'vectors:' AND v.number IS NULL
  AND m.number > (SELECT max(number) FROM messages) - :most_vectors;

-- check: index_vectors
-- The search index {model} has an entry, {number}, for a message that is not indexed or does not exist.
SELECT v.model, v.number
FROM index_vectors v LEFT JOIN messages m ON m.number = v.number
LEFT JOIN index_progress p ON p.kind = 'vectors:' || v.model AND p.topic_id = m.topic_id AND p.through_seq >= m.seq
WHERE p.kind IS NULL;

-- check: index_vectors
-- The entries of the search index {model} differ in length.
SELECT model FROM index_vectors GROUP BY model HAVING min(length(vector)) <> max(length(vector));
