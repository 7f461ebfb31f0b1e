-- One request of the mix, eight operations. What they do follows from a counter in the database, so that the work does not
-- depend on the client, its connections or the order in which their requests arrive.
local first = (redis.call('INCR', 'requests') - 1) * 8
for n = first + 1, first + 8 do
  local x = (n * 1103515245 + 12345) % 2147483648
  local key, size = math.floor(x / 64) % 50000, math.floor(x / 4096) % 1200
  local kind = x % 10
  if kind < 4 then
    redis.call('SET', 'text:' .. key, string.rep('v', size))
  elseif kind < 6 then
    redis.call('HSET', 'row:' .. key % 4000, 'field' .. n % 100, string.rep('h', size % 90), 'seen', n)
  elseif kind < 8 then
    local list = 'list:' .. key % 800
    if redis.call('RPUSH', list, 'entry ' .. n .. string.rep('l', size % 60)) > 200 then redis.call('DEL', list) end
  elseif kind < 9 then
    redis.call('DEL', 'text:' .. key * 7 % 50000)
  else
    redis.call('ZADD', 'rank:' .. key % 100, size, 'member' .. key)
  end
end
return first
