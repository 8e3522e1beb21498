-- wrk: POST with an empty JSON object; the key comes from the environment.
require "result"
wrk.method = "POST"
wrk.body = "{}"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLUICE_BENCHMARK_KEY")
