-- Whose store this is. The SQLite engine also writes it into the header of the file.

INSERT INTO meta (key, value) VALUES ('application', 'conch');
