-- The load: a small JSON POST. Arguments: key prefix (empty: no key), number of keys before they repeat (0: never),
-- body with a number of eight digits. Keys are the prefix and a number from 2 on, which the body has too: wrk asks for one
-- request only to look at it.

local prefix, keys_max, number = "", 0, 0
local before, between, behind
local digits = "00000000"

local function next_request()
   number = number + 1
   if keys_max > 0 and number > keys_max then number = 2 end
   return before .. number .. between .. digits:sub(#tostring(number) + 1) .. number .. behind
end

function init(args)
   prefix, keys_max = args[1], tonumber(args[2])
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = args[3]
   if prefix ~= "" then
      wrk.headers["Idempotency-Key"] = "KEY"
      local text = wrk.format()
      local key_from, key_to = text:find("KEY", 1, true)
      local from, to = text:find(digits, key_to, true)
      before, between, behind = text:sub(1, key_from - 1) .. prefix, text:sub(key_to + 1, from - 1), text:sub(to + 1)
      request = next_request
   end
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '\nRESULT {"requests":%d,"micros":%d,"not_2xx":%d,"broken":%d,"p50_micros":%d,"p99_micros":%d}\n',
      summary.requests, summary.duration, errors.status,
      errors.connect + errors.read + errors.write + errors.timeout,
      latency:percentile(50), latency:percentile(99)))
end
