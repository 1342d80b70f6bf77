-- Answers the numbers of those that wait, are in flight and dead, the earliest due or '', then names
-- and values of the counters.
local out = {
  text(redis.call('ZCARD', waiting)), text(redis.call('ZCARD', flying)), text(redis.call('ZCARD', dead)),
  head and text(head) or '',
}
for _, counter in ipairs(redis.call('HGETALL', counts)) do out[#out + 1] = counter end
return out
