-- ARGV: channel, 'w' (waiting), 'f' (in flight) or 'd' (dead), limit, and for a further page time and
-- id of the last record. Answers '1' when there are more or '0', then of each record: id, time, reason.
local key = ({w = waiting, f = flying, d = dead})[ARGV[2]]
local limit = tonumber(ARGV[3])

-- Whether a comes after b, byte for byte: Lua's own < goes by the locale.
local function after(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

local from = 0
if ARGV[4] then
  -- Of those with the cursor's time, the first whose id is after the cursor's.
  from = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[4])
  local to = from + redis.call('ZCOUNT', key, ARGV[4], ARGV[4])
  while from < to do
    local middle = math.floor((from + to) / 2)
    if after(redis.call('ZRANGE', key, middle, middle)[1], ARGV[5]) then
      to = middle
    else
      from = middle + 1
    end
  end
end
local found = redis.call('ZRANGE', key, from, from + limit, 'WITHSCORES')
local out = {#found > 2 * limit and '1' or '0'}
for i = 1, math.min(#found, 2 * limit), 2 do
  out[#out + 1] = found[i]
  out[#out + 1] = found[i + 1]
  out[#out + 1] = key == dead and redis.call('HGET', reasons, found[i]) or ''
end
return out
