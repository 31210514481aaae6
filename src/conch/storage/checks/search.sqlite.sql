-- The full-text index keeps no texts. Its table of sizes has a row for every message in it.

-- check: index_words
-- The search index lacks message {message_id} of topic {topic_id}.
SELECT m.message_id, m.topic_id
FROM index_progress p JOIN messages m ON m.topic_id = p.topic_id AND m.seq <= p.through_seq
LEFT JOIN index_words_docsize w ON w.id = m.number
WHERE p.kind = 'words' AND w.id IS NULL;

-- check: index_words
-- The search index has an entry, {number}, for a message that is not indexed or does not exist.
SELECT w.id AS number
FROM index_words_docsize w LEFT JOIN messages m ON m.number = w.id
LEFT JOIN index_progress p ON p.kind = 'words' AND p.topic_id = m.topic_id AND p.through_seq >= m.seq
WHERE p.kind IS NULL;
