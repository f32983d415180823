-- Puts tokens back, up to a full bucket.
--
-- ARGV[4], ARGV[5]: the time in which as many tokens refill.

if value then
  full, part = full - tonumber(ARGV[4]), part - tonumber(ARGV[5])
  if part < 0 then
    full, part = full - 1, part + parts
  end
  if full < now then
    full, part = now, 0
  end
  redis.call('SET', KEYS[1], string.format('%.0f:%.0f:%.0f', full, part, now),
    'PX', string.format('%.0f', math.floor((full - clock) / 1000) + 1000))
end
return {1, full - now, part, now - clock}
