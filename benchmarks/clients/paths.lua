-- wrk: one request to each line of a file, in turns; a file that is too short is read again.
require "result"
wrk.method = os.getenv("SLUICE_BENCHMARK_METHOD")
local size = tonumber(os.getenv("SLUICE_BENCHMARK_BYTES"))
if size > 0 then
    wrk.body = string.rep("sluice--", size / 8)
end
local started = 0

function setup(thread)
    thread:set("place", started)
    thread:set("threads", tonumber(os.getenv("SLUICE_BENCHMARK_THREADS")))
    started = started + 1
end

function init()
    paths = {}
    local number = 0
    for line in io.lines(os.getenv("SLUICE_BENCHMARK_PATHS")) do
        if number % threads == place then
            table.insert(paths, line)
        end
        number = number + 1
    end
    last = 0
end

function request()
    last = last % #paths + 1
    return wrk.format(nil, paths[last])
end
