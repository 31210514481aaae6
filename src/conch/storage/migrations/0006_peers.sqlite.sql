INSERT INTO index_words (index_words) VALUES ('delete-all');
