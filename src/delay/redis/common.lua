-- Put in front of every script. KEYS share one hash tag, so that they are in one slot of a cluster:
-- 1 id -> due ms, 2 id -> end of the lease, 3 id -> record, 4 id -> attempts:token:due of what was
-- claimed before, 5 id -> time of death, 6 id -> why, 7 counters. ARGV[1] is the channel for wakes.
local waiting, flying, records, states, dead, reasons, counts = unpack(KEYS)

-- tostring() would write large numbers with an exponent.
local function text(number)
  return string.format('%.0f', number)
end

-- Effects are replicated, not scripts, so reading the time before writing is allowed.
local clock = redis.call('TIME')
local micros = tonumber(clock[2])
local now = tonumber(clock[1]) * 1000 + math.floor(micros / 1000)
local now_up = now + (micros % 1000 > 0 and 1 or 0)

local function parse(state)
  if not state then return 0, '0', nil end
  local attempts, token, due = string.match(state, '^(%d+):(%d+):(%d+)$')
  return tonumber(attempts) or 0, token or '0', tonumber(due)
end

local function count(name, by)
  if by > 0 then redis.call('HINCRBY', counts, name, by) end
end

local function first(key)
  local found = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return found[2] and tonumber(found[2]) or nil
end

-- Wakes the workers when something is now due before all others. A hint: nothing relies on it, so
-- a user who may not publish does no harm.
local head = first(waiting)
local nearest = nil
local function wait(id, at)
  redis.call('ZADD', waiting, text(at), id)
  if not nearest or at < nearest then nearest = at end
end
local function tell()
  if nearest and (not head or nearest < head) then
    redis.pcall('PUBLISH', ARGV[1], text(nearest))
  end
end
