-- Puts tokens back, up to a full bucket.
--
-- ARGV[4], ARGV[5]: the time in which as many tokens refill.
-- ARGV[6]: if it is there, the time at which they were taken, ahead of use. Had they not
-- been, the bucket might have been full since then and earned nothing; so what it may have
-- earned is not put back. Nor is anything if the clock was set back since.

if value then
  local back, back_part = tonumber(ARGV[4]), tonumber(ARGV[5])
  if ARGV[6] then
    local age = now - tonumber(ARGV[6])
    if age < 0 or age > back then
      back, back_part = 0, 0
    else
      back = back - age
    end
  end
  full, part = full - back, part - back_part
  if part < 0 then
    full, part = full - 1, part + parts
  end
  if full < now then
    full, part = now, 0
  end
  write()
end
return {1, full - now, part, now - clock, now}
