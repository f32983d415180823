-- The bucket of KEYS[1] as it is now. The other scripts begin with this one.
--
-- A bucket is the time at which it will be full, and the latest time that it has seen, kept
-- as "full:part:last". Times are whole microseconds of this server's clock, and part is in
-- parts of one, of which there are ARGV[3]. All of them are integers below 2^53, which
-- Lua's numbers hold exactly, and they are added, subtracted and compared, and no more.
--
-- ARGV[1], ARGV[2]: the time in which an empty bucket fills up.

local burst, burst_part, parts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 1000000 + tonumber(time[2])

local now, full, part = clock, clock, 0 -- a key that is absent is a full bucket
local moved = false -- whether the bucket has to be written, although nothing is taken
local value = redis.call('GET', KEYS[1])
if value then
  local f, p, l = string.match(value, '^(%d+):(%d+):(%d+)$')
  if not l then
    return redis.error_reply('RATELIMIT the key holds something else than a token bucket')
  end
  full, part = tonumber(f), tonumber(p)

  local ahead = tonumber(l) - clock
  if ahead > burst then
    full, moved = full - ahead, true -- the clock was set back by far: go on from here
  elseif ahead > 0 then
    now = clock + ahead -- the clock was set back: wait for it
  end
  if part >= parts then
    full, part = full + 1, 0 -- written for a limit with other parts
  end
  if full < now then
    full, part = now, 0
  elseif full > now + burst or full == now + burst and part > burst_part then
    full, part, moved = now + burst, burst_part, true -- written for a larger limit: empty
  end
end

-- Writes the bucket. It may be forgotten when it is full; a second later, to be sure.
local function write()
  redis.call('SET', KEYS[1], string.format('%.0f:%.0f:%.0f', full, part, now),
    'PX', string.format('%.0f', math.floor((full - clock) / 1000) + 1000))
end
