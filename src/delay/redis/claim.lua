-- ARGV: channel, maximum, lease ms, maximum attempts, maximum bytes, reason for ended leases.
-- Answers now, the next time there may be something or '', the token, then of each record: id, due,
-- attempts, record.
local max, lease, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max_bytes = tonumber(ARGV[5])

local ended = redis.call('ZRANGEBYSCORE', flying, '-inf', text(now), 'LIMIT', 0, max)
for _, id in ipairs(ended) do
  redis.call('ZREM', flying, id)
  local attempts, _, due = parse(redis.call('HGET', states, id))
  if attempts >= most then
    redis.call('HSET', states, id, attempts .. ':0:' .. text(due or now))
    redis.call('ZADD', dead, text(now), id)
    redis.call('HSET', reasons, id, ARGV[6])
  else
    redis.call('ZADD', waiting, text(due or now), id)
  end
end
count('expired', #ended)

local out = {text(now), '', '0'}
local due = redis.call('ZRANGEBYSCORE', waiting, '-inf', text(now), 'WITHSCORES', 'LIMIT', 0, max)
if #due > 0 then
  local token = text(redis.call('HINCRBY', counts, 'token', 1))
  out[3] = token
  local ids = {}
  for i = 1, #due, 2 do ids[#ids + 1] = due[i] end
  local known = redis.call('HMGET', states, unpack(ids))
  local gone, leases, claims, bytes, early, lost = {}, {}, {}, 0, 0, 0
  local lease_end = text(now + lease)
  for i, id in ipairs(ids) do
    local record = redis.call('HGET', records, id)
    if record then
      if #claims > 0 and bytes + #record > max_bytes then break end
      bytes = bytes + #record
      local at = due[2 * i]
      if tonumber(at) > now then early = early + 1 end
      local attempts = parse(known[i]) + 1
      leases[#leases + 1] = lease_end
      leases[#leases + 1] = id
      claims[#claims + 1] = id
      claims[#claims + 1] = attempts .. ':' .. token .. ':' .. at
      out[#out + 1] = id
      out[#out + 1] = at
      out[#out + 1] = tostring(attempts)
      out[#out + 1] = record
    else
      redis.call('HDEL', states, id)
      lost = lost + 1
    end
    gone[#gone + 1] = id
  end
  redis.call('ZREM', waiting, unpack(gone))
  if #claims > 0 then
    redis.call('ZADD', flying, unpack(leases))
    redis.call('HSET', states, unpack(claims))
  end
  count('early', early)
  count('lost', lost)
end

local next_due, next_end = first(waiting), first(flying)
if next_due and next_end then next_due = math.min(next_due, next_end) end
next_due = next_due or next_end
if next_due then out[2] = text(next_due) end
return out
