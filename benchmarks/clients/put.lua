-- wrk: PUT of 1 KiB, a new name each time.
require "result"
wrk.method = "PUT"
wrk.body = string.rep("sluice--", 128)
local threads = 0
local count = 0

function setup(thread)
    threads = threads + 1
    thread:set("number", threads)
end

function request()
    count = count + 1
    return wrk.format(nil, "/up/" .. (number or 0) .. "-" .. count)
end
