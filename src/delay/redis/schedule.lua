-- ARGV: channel, maximum delay, capacity, then of each item: id, 'a' (at) or 'd' (after), ms, policy
-- ('k' keep, 'r' replace, 'e' earliest, 'x' refuse), record. Answers a word and a time of each.
local max, capacity = tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HLEN', records)
local scheduled = 0
local out = {}

local function existing(id, at, policy, record)
  local due = redis.call('ZSCORE', waiting, id)
  local is_waiting, is_dead = due, false
  if not due then
    is_dead = redis.call('ZSCORE', dead, id)
    local _
    _, _, due = parse(redis.call('HGET', states, id))
    due = due or 0
  end
  due = tonumber(due)
  if policy == 'x' then return 'taken', due end
  if policy == 'k' or (policy == 'e' and not is_dead and not (is_waiting and at < due)) then
    return 'kept', due
  end
  redis.call('ZREM', flying, id)
  redis.call('ZREM', dead, id)
  redis.call('HDEL', reasons, id)
  redis.call('HDEL', states, id)
  redis.call('HSET', records, id, record)
  scheduled = scheduled + 1
  wait(id, at)
  return 'replaced', at
end

for i = 4, #ARGV, 5 do
  local id, kind, at, policy, record = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4]
  if kind == 'd' then at = now_up + at end
  local answer = 'new'
  if at - now_up > max or at > 9007199254740991 then
    answer = 'far'
  elseif held >= capacity then
    if redis.call('HEXISTS', records, id) == 1 then
      answer, at = existing(id, at, policy, record)
    else
      answer = 'full'
    end
  elseif redis.call('HSETNX', records, id, record) == 1 then
    held = held + 1
    scheduled = scheduled + 1
    wait(id, at)
  else
    answer, at = existing(id, at, policy, record)
  end
  out[#out + 1] = answer
  out[#out + 1] = text(at)
end
count('scheduled', scheduled)
tell()
return out
