-- Counts the quiet from now on: it was just begun, or whoever asks holds what is not here yet.
UPDATE oncegate.front f
SET switched_at = clock_timestamp()
WHERE f.mode = 'authoritative'
  AND (f.switched_at = 'infinity' OR ($1::boolean AND clock_timestamp() < f.switched_at + f.quiet))
