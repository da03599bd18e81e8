-- Reads rows of one slot, all at one moment.
-- KEYS: rows (a hash), index (a sorted set of the keys that are scanned), then bodies (strings).
-- ARGV: number of fields, the fields; then per scan: from, to, most, cut, prefix. With a cut, each key found names another row: the
-- prefix and what stands in the key behind the cut; that row is read along.

-- A write that changes nothing: a replica, or a primary that lost its replicas, refuses it and so never answers with old rows.
redis.call('HDEL', KEYS[1], '')

local CHUNK = 500

local function values(fields)
  local found = {}
  for first = 1, #fields, CHUNK do
    local part = redis.call('HMGET', KEYS[1], unpack(fields, first, math.min(first + CHUNK - 1, #fields)))
    for i = 1, #part do found[#found + 1] = part[i] end
  end
  return found
end

local time = redis.call('TIME')
local count = tonumber(ARGV[1])
local fields = {}
for i = 1, count do fields[i] = ARGV[1 + i] end

local bodies = {}
for i = 3, #KEYS do bodies[i - 2] = redis.call('GET', KEYS[i]) end

local scans = {}
for at = count + 2, #ARGV, 5 do
  local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[at], ARGV[at + 1], 'LIMIT', 0, ARGV[at + 2])
  local cut, along = tonumber(ARGV[at + 3]), {}
  if cut > 0 then
    for i = 1, #keys do along[i] = ARGV[at + 4] .. string.sub(keys[i], cut + 1) end
  end
  scans[#scans + 1] = { keys, values(keys), along, values(along) }
end

return { time[1], time[2], redis.call('HGET', KEYS[1], 'meta/time'), values(fields), bodies, scans }
