-- wrk: tus creation and PATCH, an upload of 1 KiB in two requests. Which connection sends the second is left to chance.
require "result"
local body = string.rep("sluice--", 128)
local creation = {
    ["Authorization"] = "Bearer " .. os.getenv("SLUICE_BENCHMARK_KEY"),
    ["Tus-Resumable"] = "1.0.0",
    ["Upload-Length"] = "1024",
}
local content = {
    ["Tus-Resumable"] = "1.0.0",
    ["Upload-Offset"] = "0",
    ["Content-Type"] = "application/offset+octet-stream",
}
local threads, waiting = {}, {}
-- Global, as the main thread asks for it.
completed = 0

function setup(thread)
    table.insert(threads, thread)
end

function request()
    local path = table.remove(waiting)
    if path then
        return wrk.format("PATCH", path, content, body)
    end
    return wrk.format("POST", nil, creation)
end

function response(status, headers)
    if status == 201 then
        table.insert(waiting, (headers["Location"]:gsub("^https?://[^/]+", "")))
    elseif status == 204 then
        completed = completed + 1
    end
end

function done(summary, latency)
    local uploads = 0
    for _, thread in ipairs(threads) do
        uploads = uploads + thread:get("completed")
    end
    report(summary, latency, uploads)
end
