-- ARGV: channel, lease ms, then of each lease: id, token. Answers as complete.lua.
local lease_end = text(now + tonumber(ARGV[2]))
local out, stale = {}, 0
for i = 3, #ARGV, 2 do
  local _, token = parse(redis.call('HGET', states, ARGV[i]))
  if token ~= '0' and token == ARGV[i + 1] and redis.call('ZSCORE', flying, ARGV[i]) then
    redis.call('ZADD', flying, lease_end, ARGV[i])
    out[#out + 1] = '1'
  else
    out[#out + 1] = '0'
    stale = stale + 1
  end
end
count('stale', stale)
return table.concat(out)
