#include "api/lifecycle_sandbox.h"

#include "api/lifecycle_error.h"
#include "base/json_escape.h"

namespace osb::api {
namespace {

// `name` comes with its punctuation: ,"id":
void append_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  append_json_string(out, value);
}

void append_time(std::string& out, std::string_view name, Timestamp time) {
  out += name;
  out += '"';
  out += format_timestamp(time);
  out += '"';
}

void append_map(std::string& out, const StringMap& map) {
  char before = '{';
  for (const auto& [key, value] : map) {
    out += before;
    before = ',';
    append_json_string(out, key);
    out += ':';
    append_json_string(out, value);
  }
  out += map.empty() ? "{}" : "}";
}

void append_extensions(std::string& out, const StringMap& extensions) {
  const auto first = extensions.lower_bound(std::string(kEchoedExtension));
  StringMap echoed;
  for (auto at = first; at != extensions.end() && at->first.starts_with(kEchoedExtension); ++at) echoed.insert(*at);
  if (echoed.empty()) return;
  out += R"(,"extensions":)";
  append_map(out, echoed);
}

enum class Source { Shown, Hidden };

void append(std::string& out, const SandboxView& sandbox, Source source) {
  const CreateSandbox& spec = *sandbox.spec;
  append_field(out, R"({"id":)", sandbox.id);
  if (source == Source::Shown) {
    if (!spec.template_id.empty()) {
      append_field(out, R"(,"templateId":)", spec.template_id);
    } else if (!spec.snapshot_id.empty()) {
      append_field(out, R"(,"snapshotId":)", spec.snapshot_id);
    } else if (spec.image) {
      append_field(out, R"(,"image":{"uri":)", spec.image->uri);
      out += '}';
    }
  }
  if (spec.platform) {
    append_field(out, R"(,"platform":{"os":)", spec.platform->os);
    append_field(out, R"(,"arch":)", spec.platform->arch);
    out += '}';
  }
  out += R"(,"status":)";
  append_status(out, *sandbox.status);
  if (sandbox.metadata != nullptr) {
    out += R"(,"metadata":)";
    append_map(out, *sandbox.metadata);
  }
  out += R"(,"entrypoint":[)";
  for (std::size_t i = 0; i < spec.entrypoint.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, spec.entrypoint[i]);
  }
  out += ']';
  append_extensions(out, spec.extensions);
  if (!sandbox.pool.empty()) {
    append_field(out, R"(,"allocation":{"mode":"pool","poolRef":)", sandbox.pool);
    out += R"(,"state":"allocated"})";
  }
  if (sandbox.expires_at) append_time(out, R"(,"expiresAt":)", *sandbox.expires_at);
  append_time(out, R"(,"createdAt":)", sandbox.created_at);
  out += '}';
}

std::string event(std::string_view type, std::int64_t unix_ms) {
  return R"({"type":")" + std::string(type) + R"(","timestamp":)" + std::to_string(unix_ms);
}

}  // namespace

void append_status(std::string& out, const Status& status) {
  append_field(out, R"({"state":)", status.state);
  if (!status.reason.empty()) append_field(out, R"(,"reason":)", status.reason);
  if (!status.message.empty()) append_field(out, R"(,"message":)", status.message);
  if (status.last_transition_at) append_time(out, R"(,"lastTransitionAt":)", *status.last_transition_at);
  out += '}';
}

void append_sandbox(std::string& out, const SandboxView& sandbox) { append(out, sandbox, Source::Shown); }

std::string encode_sandbox(const SandboxView& sandbox) {
  std::string out;
  out.reserve(512);
  append(out, sandbox, Source::Shown);
  return out;
}

std::string encode_created(const SandboxView& sandbox) {
  std::string out;
  append(out, sandbox, Source::Hidden);
  return out;
}

std::string encode_sandbox_list(std::span<const SandboxView> items, const PageInfo& page) {
  std::string out = R"({"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    append_sandbox(out, items[i]);
  }
  out += R"(],"pagination":)" + encode_page_info(page) + "}";
  return out;
}

std::string encode_state_event(std::int64_t unix_ms, const SandboxView& sandbox) {
  std::string out = event("state", unix_ms) + R"(,"sandbox":)";
  append_sandbox(out, sandbox);
  out += '}';
  return out;
}

std::string encode_deleted_event(std::int64_t unix_ms) { return event("deleted", unix_ms) + "}"; }
std::string encode_ping_event(std::int64_t unix_ms) { return event("ping", unix_ms) + "}"; }

Result<Timestamp> decode_renew(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  if (auto ok = finish_schema(r); !ok) return Failure(ok.error());
  const json::value* field = r.find("expiresAt");
  if (field == nullptr) return unprocessable("/expiresAt", "required");
  Result<Timestamp> time = fail(Code::Unprocessable, "expected a time such as 2025-01-02T03:04:05Z");
  if (const auto* text = field->if_string()) {
    time = parse_timestamp(std::string_view(text->data(), text->size()));
  } else if (const auto* whole = field->if_int64()) {
    time = timestamp_from_number(*whole);
  } else if (const auto* number = field->if_double()) {
    time = timestamp_from_number(*number);
  }
  if (!time) return unprocessable("/expiresAt", time.error().message);
  return time;
}

Result<void> check_renew(Timestamp expires_at, Timestamp now, std::string_view backend) {
  if (expires_at > now) return {};
  return refuse(Code::InvalidRequest, backend_reason(backend, "INVALID_EXPIRATION"),
                "/expiresAt: " + format_timestamp(expires_at) + " is not in the future");
}

std::string encode_renewed(Timestamp expires_at) {
  std::string out;
  append_time(out, R"({"expiresAt":)", expires_at);
  out += '}';
  return out;
}

Result<MetricsEvent> decode_metrics_event(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  MetricsEvent out;
  out.event_type = r.required_string("eventType");
  out.sandbox_id = r.optional_string("sandboxId").value_or("");
  out.image = r.optional_string("image").value_or("");
  if (const json::value* duration = r.find("createDurationMs"); duration == nullptr || !duration->is_number()) {
    r.reject("createDurationMs", "expected a number");
  } else if (out.create_duration_ms = duration->to_number<double>(); !(out.create_duration_ms >= 0)) {
    r.reject("createDurationMs", "must not be negative");
  }
  const auto success = r.optional_bool("success");
  if (!success) r.reject("success", "required");
  out.success = success.value_or(false);
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  return out;
}

}  // namespace osb::api
