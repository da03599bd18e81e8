-- Compares what a command has read in one slot with what is there now and, if all of it is equal, writes what the command wrote.
-- Nothing is computed here: rules and numbers are the model's. Gives 1, or 0 when something differs and nothing was written.
-- KEYS: rows, index, then bodies: first those that are set, then those that are deleted.
-- ARGV: the store's time (16 digits), then seven sections, each led by the number of its entries: fields that are equal (field, value),
-- fields that are absent (field), scans (from, to, most, digest), rows to set (field, value), the same with a line in the index, rows to
-- delete (field), bodies to set (value).

-- Values given to one call; unpack has a limit of some thousands.
local CHUNK = 500

local at = 2
local function section(width)
  local count = tonumber(ARGV[at])
  local first = at + 1
  at = first + count * width
  return first, at - 1
end

local first, last = section(2)
for i = first, last, CHUNK * 2 do
  local fields = {}
  for j = i, math.min(i + CHUNK * 2 - 1, last), 2 do fields[#fields + 1] = ARGV[j] end
  local found = redis.call('HMGET', KEYS[1], unpack(fields))
  for n = 1, #found do
    if found[n] ~= ARGV[i + n * 2 - 1] then return 0 end
  end
end

first, last = section(1)
for i = first, last, CHUNK do
  local found = redis.call('HMGET', KEYS[1], unpack(ARGV, i, math.min(i + CHUNK - 1, last)))
  for n = 1, #found do
    if found[n] then return 0 end
  end
end

first, last = section(4)
for i = first, last, 4 do
  local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[i], ARGV[i + 1], 'LIMIT', 0, ARGV[i + 2])
  local parts = {}
  for from = 1, #keys, CHUNK do
    local found = redis.call('HMGET', KEYS[1], unpack(keys, from, math.min(from + CHUNK - 1, #keys)))
    for n = 1, #found do
      local key, value = keys[from + n - 1], found[n]
      if not value then return 0 end
      parts[#parts + 1] = #key .. ':' .. key .. #value .. ':' .. value
    end
  end
  if redis.sha1hex(table.concat(parts)) ~= ARGV[i + 3] then return 0 end
end

local function set(from, to)
  for i = from, to, CHUNK do redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + CHUNK - 1, to))) end
end

-- All is as it was read: from here on nothing is refused.
local touched = false
first, last = section(2)
set(first, last)
touched = touched or last >= first

first, last = section(2)
set(first, last)
touched = touched or last >= first
for i = first, last, CHUNK do
  local lines = {}
  for j = i, math.min(i + CHUNK - 1, last), 2 do
    lines[#lines + 1] = 0
    lines[#lines + 1] = ARGV[j]
  end
  redis.call('ZADD', KEYS[2], unpack(lines))
end

first, last = section(1)
touched = touched or last >= first
for i = first, last, CHUNK do
  local to = math.min(i + CHUNK - 1, last)
  redis.call('HDEL', KEYS[1], unpack(ARGV, i, to))
  redis.call('ZREM', KEYS[2], unpack(ARGV, i, to))
end

first, last = section(1)
for i = first, last do redis.call('SET', KEYS[3 + i - first], ARGV[i]) end
for i = 4 + last - first, #KEYS do redis.call('DEL', KEYS[i]) end

if touched then
  local before = redis.call('HGET', KEYS[1], 'meta/time')
  if not before or before < ARGV[1] then redis.call('HSET', KEYS[1], 'meta/time', ARGV[1]) end
end
return 1
