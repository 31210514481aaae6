-- check: message_addressees
-- Message {seq} of topic {topic_id} is listed as one to {addressee}, but its metadata does not say so.
SELECT a.seq, a.topic_id, a.addressee
FROM message_addressees a JOIN messages m ON m.topic_id = a.topic_id AND m.seq = a.seq
WHERE NOT EXISTS (
  SELECT 1 FROM json_each(CASE WHEN json_valid(m.metadata_json) THEN m.metadata_json ELSE '{}' END, '$.to') named
  WHERE named.value = a.addressee
);
