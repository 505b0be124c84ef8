-- The response of a record that complete.sql or resolve.sql has just completed.
INSERT INTO responses (fence, record, headers, body) VALUES (:fence, :record, :headers, :body)
