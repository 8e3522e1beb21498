-- wrk: tus creation-with-upload, an upload of 1 KiB in one request.
require "result"
wrk.method = "POST"
wrk.body = string.rep("sluice--", 128)
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLUICE_BENCHMARK_KEY")
wrk.headers["Tus-Resumable"] = "1.0.0"
wrk.headers["Upload-Length"] = "1024"
wrk.headers["Content-Type"] = "application/offset+octet-stream"
