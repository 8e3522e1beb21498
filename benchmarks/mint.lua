-- wrk: POST with an empty JSON object; the key comes from the environment.
wrk.method = "POST"
wrk.body = "{}"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLUICE_BENCHMARK_KEY")

function done(summary, latency)
    local errors = summary.errors
    local failures = errors.connect + errors.read + errors.write + errors.timeout + errors.status
    io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(99), failures,
        latency:percentile(50)))
end
