-- The last fence given. Read once in a transaction that acquires something.
SELECT last FROM fences WHERE one = 1
