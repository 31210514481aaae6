-- Whether a message is to anybody. Its metadata may mention "to" in another place.

CREATE INDEX message_addressees_message_idx ON message_addressees (topic_id, seq);
