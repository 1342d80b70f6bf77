-- ARGV: channel, maximum delay, id, 'a' (at) or 'd' (after), ms. Answers 'far', 'flying', 'unknown' or
-- the new time.
local id, at = ARGV[3], tonumber(ARGV[5])
if ARGV[4] == 'd' then at = now_up + at end
if at - now_up > tonumber(ARGV[2]) or at > 9007199254740991 then return 'far' end
if redis.call('HEXISTS', records, id) == 0 then return 'unknown' end
if redis.call('ZSCORE', flying, id) then return 'flying' end
local attempts = parse(redis.call('HGET', states, id))
if redis.call('ZREM', dead, id) == 1 then
  attempts = 0
  redis.call('HDEL', reasons, id)
end
if attempts > 0 then
  redis.call('HSET', states, id, attempts .. ':0:' .. text(at))
else
  redis.call('HDEL', states, id)
end
wait(id, at)
tell()
return text(at)
