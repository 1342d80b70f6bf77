-- ARGV: channel, then of each lease: id, token. Answers '1' (done) or '0' (stale) of each, as one text.
local ids, tokens = {}, {}
for i = 2, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  tokens[#tokens + 1] = ARGV[i + 1]
end
if #ids == 0 then return '' end
local known = redis.call('HMGET', states, unpack(ids))
local done, seen, out = {}, {}, {}
for i, id in ipairs(ids) do
  local _, token = parse(known[i])
  local held = token ~= '0' and token == tokens[i] and not seen[id]
  if held then
    done[#done + 1] = id
    seen[id] = true
  end
  out[#out + 1] = held and '1' or '0'
end
if #done > 0 then
  redis.call('ZREM', flying, unpack(done))
  -- One whose lease has ended may wait again.
  redis.call('ZREM', waiting, unpack(done))
  redis.call('HDEL', states, unpack(done))
  redis.call('HDEL', records, unpack(done))
end
count('completed', #done)
count('stale', #ids - #done)
return table.concat(out)
