-- What the agents of an event were called when it happened. `names_of_the_day.py` fills this in for older events.
ALTER TABLE room_events ADD COLUMN from_agent TEXT;
ALTER TABLE room_events ADD COLUMN to_agent TEXT;
