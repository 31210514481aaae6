TRUNCATE index_words;
