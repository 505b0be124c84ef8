-- suspect: notes one that nobody has noted.
INSERT INTO suspicions (record, earlier, operation, is_anonymous, created_at, earlier_at)
VALUES (:record, :earlier, :operation, :is_anonymous, :created_at, :earlier_at)
ON CONFLICT (record) DO NOTHING
