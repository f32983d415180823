-- Counts requests in a window that begins with the first of them: the cheapest limit.
--
-- KEYS[1]: the count, which expires with its window.
-- ARGV[1]: how much a window holds; ARGV[2]: its length in milliseconds; ARGV[3]: the cost.
-- Returns 1 if the cost was counted, the count, and how many milliseconds of the window
-- are left.

local limit, length, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local count, left, kept = 0, length, false -- kept: the count has an end that stays
local value = redis.call('GET', KEYS[1])
if value then
  if not string.match(value, '^%d+$') then
    return redis.error_reply('RATELIMIT the key holds something else than a count')
  end
  count, left, kept = tonumber(value), redis.call('PTTL', KEYS[1]), true
  if left < 0 or left > length then -- written without an end, or for a longer window
    left = length
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
end
if count + cost > limit then
  return {0, count, left}
end
if kept then
  redis.call('INCRBY', KEYS[1], ARGV[3]) -- the window ends when it would have
else
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
end
return {1, count + cost, left}
