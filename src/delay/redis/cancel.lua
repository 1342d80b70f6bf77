-- ARGV: channel, then ids. Answers 'r' (removed), 'f' (in flight) or 'u' (unknown) of each, as one text.
local out = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local answer = 'u'
  if redis.call('HDEL', records, id) == 1 then
    answer = redis.call('ZREM', flying, id) == 1 and 'f' or 'r'
    redis.call('ZREM', waiting, id)
    redis.call('ZREM', dead, id)
    redis.call('HDEL', states, id)
    redis.call('HDEL', reasons, id)
  end
  out[#out + 1] = answer
end
return table.concat(out)
