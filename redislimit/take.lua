-- Takes tokens if the bucket holds them: the first number of them, of those given, that it
-- does hold. A denial writes nothing, unless the bucket had to be moved in time: or it would
-- have to be again, and would never fill.
--
-- ARGV[4], ARGV[5]: the time in which the first number refills; then those of the others.
-- Returns which of them was taken, or 0; how long after now the bucket will be full (with
-- the part); by how much now is later than the clock; and now.

local taken = 0
for i = 4, #ARGV - 1, 2 do
  local after, after_part = full + tonumber(ARGV[i]), part + tonumber(ARGV[i + 1])
  if after_part >= parts then
    after, after_part = after + 1, after_part - parts
  end
  if after < now + burst or after == now + burst and after_part <= burst_part then
    full, part, taken = after, after_part, i / 2 - 1
    break
  end
end
if taken > 0 or moved then
  write()
end
return {taken, full - now, part, now - clock, now}
