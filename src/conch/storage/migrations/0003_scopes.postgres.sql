-- Key ranges compare bytes, whatever the database's locale.
ALTER TABLE reservations ALTER COLUMN scope_key TYPE TEXT COLLATE "C";
