-- A page that shows a room reads its turns and its open notices at every change. In a long room, both are few among many.

CREATE INDEX room_events_turns_idx ON room_events (room_id, event_seq)
WHERE event_type IN ('claim', 'takeover', 'release', 'pass', 'return', 'kick', 'close');

CREATE INDEX protocol_events_open_idx ON protocol_events (room_id, number) WHERE state <> 'accepted';
