-- wrk: what every script here prints at its end, for small.py to read; `uploads` counts what was stored, if not each request.
function report(summary, latency, uploads)
    local errors = summary.errors
    local failures = errors.connect + errors.read + errors.write + errors.timeout + errors.status
    io.write(string.format("RESULT requests=%d microseconds=%d failures=%d median=%d percentile99=%d uploads=%d\n",
        summary.requests, summary.duration, failures, latency:percentile(50), latency:percentile(99),
        uploads or summary.requests))
end

function done(summary, latency)
    report(summary, latency)
end
