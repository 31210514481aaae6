-- It holds words, not texts: the search decides what a word is, for all engines. The tokenizer only splits at spaces.
CREATE VIRTUAL TABLE index_words USING fts5 (
  words, content='', tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* Co'"
);
