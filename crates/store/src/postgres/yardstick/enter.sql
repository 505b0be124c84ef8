-- The claim of the strategy `enter`.
SELECT outcome, record, fence FROM oncegate.enter($1::text, $2::text, '\x07070707')
