-- The claim of the strategy `claim`.
SELECT outcome, record, fence FROM oncegate.claim($1::text, $2::text, '\x07070707')
