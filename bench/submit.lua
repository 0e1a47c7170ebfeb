-- Every request of wrk is the same; the figures leave as one line of JSON, because wrk's own text is for people.
wrk.method = os.getenv("BENCH_METHOD")
if wrk.method == "POST" then
  wrk.body = os.getenv("BENCH_BODY")
  wrk.headers["Content-Type"] = "application/json"
end

function done(summary, latency, requests)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  io.write(string.format(
    'BENCH {"requests": %d, "failed": %d, "seconds": %.6f, "p50_ms": %.4f, "p99_ms": %.4f}\n',
    summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
