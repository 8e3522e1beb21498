-- wrk: tus creation without content.
require "result"
wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLUICE_BENCHMARK_KEY")
wrk.headers["Tus-Resumable"] = "1.0.0"
wrk.headers["Upload-Length"] = "1024"
