// Keys of the newest published server whose parts this one does not have. They are known by name, so that a file with
// them is refused with the reason.

#include "config/settings.h"

namespace osb::config {

void declare_missing_kubernetes(Settings& s) {
  constexpr std::string_view kFastPath = "fast path";
  s.missing("insecure_skip_tls_verify", "Does not check the API server's certificate.", "false",
            "connection to an API server whose certificate is not checked");
  s.missing("fastpath_endpoint", "Address of the fast path.", "", kFastPath);
  s.missing("fastpath_timeout_seconds", "Seconds to wait for its answer.", "30", kFastPath);
  s.missing("fastpath_wait_ready_seconds", "Seconds until its sandbox is ready.", "30", kFastPath);
  s.missing("fastpath_resource_pool", "Its pool.", "\"default-pool\"", kFastPath);
  s.missing("template_s3_publish_secret", "Secret for publishing templates.", "\"sandbox-oss-credentials\"",
            "publishing to S3");
}

void declare_missing_parts(Settings& s) {
  s.section("store.postgresql", true);
  constexpr std::string_view kPostgres = "PostgreSQL store";
  s.missing("dsn", "Address of the database.", "", kPostgres);
  s.missing("min_pool_size", "Connections that are kept.", "1", kPostgres);
  s.missing("max_pool_size", "Connections at most.", "10", kPostgres);
  s.missing("connect_timeout_seconds", "Seconds to connect.", "5", kPostgres);
  s.missing("pool_timeout_seconds", "Seconds to wait for a connection.", "5", kPostgres);
  s.missing("snapshot_recovery_interval_seconds", "Seconds between two looks for unfinished snapshots.", "15",
            kPostgres);

  s.section("tenants", true);
  constexpr std::string_view kTenants = "tenants";
  s.missing("provider", "`file` or `http`.", "", kTenants);
  s.missing("endpoint", "Where keys are looked up, with `http`.", "", kTenants);
  s.missing("max_stale_seconds", "Seconds that a key outlives its provider.", "", kTenants);
  s.missing("timeout_seconds", "Seconds to wait for the provider.", "", kTenants);
  s.missing("auth_header", "Header for the provider.", "", kTenants);
  s.missing("auth_token", "Its value.", "", kTenants);

  s.section("otel", true);
  constexpr std::string_view kOtel = "OTLP export of the server's metrics; GET /metrics has them";
  s.missing("enabled", "Sends metrics by OTLP.", "false", kOtel);
  s.missing("endpoint", "Where to.", "", kOtel);
  s.missing("service_name", "Under which name.", "\"opensandbox-server\"", kOtel);
  s.missing("export_interval_millis", "How often.", "60000", kOtel);
}

}  // namespace osb::config
