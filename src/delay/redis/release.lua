-- ARGV: channel, maximum attempts, then of each: id, token, delay ms, 'f' (free), 'c' (counted) or
-- 'l' (last), reason. Answers 'stale', 'dead' or the time until which it waits, of each.
local most = tonumber(ARGV[2])
local out, stale = {}, 0
for i = 3, #ARGV, 5 do
  local id, mode = ARGV[i], ARGV[i + 3]
  local attempts, token, due = parse(redis.call('HGET', states, id))
  if token == '0' or token ~= ARGV[i + 1] or redis.call('ZREM', flying, id) == 0 then
    out[#out + 1] = 'stale'
    stale = stale + 1
  elseif mode == 'l' or (mode == 'c' and attempts >= most) then
    redis.call('HSET', states, id, attempts .. ':0:' .. text(due or now))
    redis.call('ZADD', dead, text(now), id)
    redis.call('HSET', reasons, id, ARGV[i + 4])
    out[#out + 1] = 'dead'
  else
    if mode == 'f' then attempts = math.max(attempts - 1, 0) end
    local at = math.min(now_up + tonumber(ARGV[i + 2]), 9007199254740991)
    if attempts > 0 then
      redis.call('HSET', states, id, attempts .. ':0:' .. text(at))
    else
      redis.call('HDEL', states, id)
    end
    wait(id, at)
    out[#out + 1] = text(at)
  end
end
count('stale', stale)
tell()
return out
