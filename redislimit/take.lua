-- Takes tokens if the bucket holds them: the first number of them, of those given, that it
-- does hold. A denial writes nothing.
--
-- ARGV[4], ARGV[5]: the time in which the first number refills; then those of the others.
-- Returns which of them was taken, or 0; how long after now the bucket will be full (with
-- the part); and by how much now is later than the clock.

for i = 4, #ARGV - 1, 2 do
  local after, after_part = full + tonumber(ARGV[i]), part + tonumber(ARGV[i + 1])
  if after_part >= parts then
    after, after_part = after + 1, after_part - parts
  end
  if after < now + burst or after == now + burst and after_part <= burst_part then
    -- It may be forgotten when it is full; a second later, to be sure.
    redis.call('SET', KEYS[1], string.format('%.0f:%.0f:%.0f', after, after_part, now),
      'PX', string.format('%.0f', math.floor((after - clock) / 1000) + 1000))
    return {i / 2 - 1, after - now, after_part, now - clock}
  end
end
return {0, full - now, part, now - clock}
