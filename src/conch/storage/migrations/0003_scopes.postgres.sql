-- Ranges of keys are ranges of bytes, whatever the database's language.
ALTER TABLE reservations ALTER COLUMN scope_key TYPE TEXT COLLATE "C";
