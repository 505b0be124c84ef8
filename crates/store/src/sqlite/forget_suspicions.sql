-- suspect: keeps the latest.
DELETE FROM suspicions WHERE number <= (SELECT max(number) FROM suspicions) - :kept
