-- wrk -t1 -s wrk_count.lua URL -- ANSWERS [HEADER VALUE]
-- Stops after so many answers, where wrk alone would stop after a time, and says how many of them were good.
-- One thread only: each has counters of its own.
local worker

function setup(thread)
  worker = thread
end

function init(args)
  left, good = tonumber(args[1]), 0
  if args[2] then wrk.headers[args[2]] = args[3] end
end

function response(status, headers, body)
  if left == 0 then return end
  left = left - 1
  if status == 200 and #body > 0 then good = good + 1 end
  if left == 0 then
    wrk.thread:stop()
    io.popen("kill -INT $PPID"):close() -- its main thread sleeps for the time it was given
  end
end

function done(summary, latency, requests)
  io.write(string.format("good answers %d missing %d\n", worker:get("good"), worker:get("left")))
end
