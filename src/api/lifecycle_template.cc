#include "api/lifecycle_template.h"

#include <algorithm>
#include <array>

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "api/lifecycle_metadata.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace osb::api {
namespace {

using std::chrono::seconds;

constexpr std::string_view kNative = "native", kOverlaybd = "overlaybd";
constexpr std::string_view kTcp = "tcp://", kCommand = "cmd://";
constexpr std::array<std::string_view, 3> kLimits = {"cpu", "memory", "disk"};
constexpr std::array<std::string_view, 6> kLoopback = {"", "127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]"};
constexpr std::int64_t kMostWarmup = 3600;

std::string required_text(ObjectReader& r, std::string_view name) {
  std::string text(trimmed(r.required_string(name)));
  if (text.empty()) r.reject(name, "required, and must not be blank");
  return text;
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter_or_digit(c) || c == '_'; });
}

json::object to_object(const StringMap& map) {
  json::object out;
  for (const auto& [key, value] : map) out.emplace(key, value);
  return out;
}

// The fields of the request, as they were given.
json::object encode_spec(const CreateTemplate& wanted) {
  json::object out{{"image", wanted.image}, {"publish", wanted.publish}};
  if (wanted.resource_limits) out["resourceLimits"] = to_object(*wanted.resource_limits);
  out["entrypoint"] = json::array(wanted.entrypoint.begin(), wanted.entrypoint.end());
  if (!wanted.env.empty()) out["env"] = to_object(wanted.env);
  if (wanted.metadata) out["metadata"] = to_object(*wanted.metadata);
  if (wanted.readiness) {
    json::object readiness;
    if (!wanted.readiness->probe.empty()) readiness["probe"] = wanted.readiness->probe;
    if (wanted.readiness->warmup_seconds) readiness["warmupSeconds"] = wanted.readiness->warmup_seconds->count();
    out["readiness"] = std::move(readiness);
  }
  out["format"] = wanted.format;
  return out;
}

json::object encode(const TemplateView& view) {
  json::object out{{"templateId", view.id}};
  for (const auto& field : encode_spec(*view.spec)) out.emplace(field.key(), field.value());
  json::object status{{"phase", view.status->phase}};
  if (!view.status->manifest_ref.empty()) status["manifestRef"] = view.status->manifest_ref;
  if (!view.status->message.empty()) status["message"] = view.status->message;
  out["status"] = std::move(status);
  out["createdAt"] = format_timestamp(view.created_at);
  out["updatedAt"] = format_timestamp(view.updated_at);
  return out;
}

}  // namespace

Result<CreateTemplate> decode_create_template(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  r.refuse_unknown({"image", "publish", "resourceLimits", "entrypoint", "env", "metadata", "readiness", "format"});
  CreateTemplate out;
  out.image = required_text(r, "image");
  out.publish = required_text(r, "publish");
  out.resource_limits = r.string_map("resourceLimits", NullEntry::Refuse);
  out.entrypoint = r.string_list("entrypoint").value_or(std::vector<std::string>());
  if (std::ranges::any_of(out.entrypoint, [](const std::string& word) { return word.contains('\0'); })) {
    r.reject("entrypoint", "must not contain a NUL byte");
  }
  out.env = r.string_map("env", NullEntry::Refuse).value_or(StringMap());
  if (out.env.contains(std::string(kHooksVariable))) r.reject("env", "OPENSANDBOX_LIFECYCLE is reserved.");
  out.metadata = r.string_map("metadata", NullEntry::Refuse);
  r.object("readiness", [&](ObjectReader& readiness) {
    readiness.refuse_unknown({"probe", "warmupSeconds"});
    TemplateReadiness& made = out.readiness.emplace();
    made.probe = trimmed(readiness.optional_string("probe").value_or(""));
    if (const auto warmup = readiness.optional_int64("warmupSeconds", 0)) made.warmup_seconds = seconds(*warmup);
  });
  out.format = r.optional_string("format").value_or(std::string(kNative));
  if (out.format != kNative && out.format != kOverlaybd) r.reject("format", "expected native or overlaybd");
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  if (out.entrypoint.empty()) out.entrypoint = {"tail", "-f", "/dev/null"};
  return out;
}

std::string encode_create_template(const CreateTemplate& wanted) { return json::serialize(encode_spec(wanted)); }

Result<void> check_create_template(const CreateTemplate& wanted) {
  for (const auto& [name, value] : wanted.resource_limits.value_or(StringMap())) {
    if (std::ranges::find(kLimits, name) == kLimits.end()) {
      return invalid_parameter("/resourceLimits", in_quotes(name) + " is none of cpu, memory, disk");
    }
  }
  for (const auto& [name, value] : wanted.env) {
    if (!is_variable_name(name)) {
      return invalid_parameter("/env", in_quotes(name) + " is no name of a variable: [A-Za-z_][A-Za-z0-9_]*");
    }
  }
  if (wanted.metadata) {
    if (auto ok = check_metadata(*wanted.metadata); !ok) return ok;
  }
  if (wanted.readiness) {
    if (!wanted.readiness->probe.empty()) {
      if (auto probe = parse_template_probe(wanted.readiness->probe); !probe) return Failure(probe.error());
    }
    if (wanted.readiness->warmup_seconds.value_or(seconds(0)) > seconds(kMostWarmup)) {
      return invalid_parameter("/readiness/warmupSeconds", "at most " + std::to_string(kMostWarmup) + " s");
    }
  }
  if (wanted.format != kNative) {
    return invalid_parameter("/format", "this server keeps templates as \"native\" snapshots only");
  }
  return {};
}

Result<TemplateProbe> parse_template_probe(std::string_view text) {
  constexpr std::string_view kWhere = "/readiness/probe";
  if (text.starts_with(kCommand)) {
    const std::string command(trimmed(text.substr(kCommand.size())));
    if (command.empty() || command.contains('\0')) return invalid_parameter(kWhere, "expected cmd://COMMAND");
    return TemplateProbe{0, command};
  }
  if (!text.starts_with(kTcp)) {
    return invalid_parameter(kWhere, in_quotes(text) + " is neither tcp://HOST:PORT nor cmd://COMMAND");
  }
  std::string_view rest = text.substr(kTcp.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  const std::string_view host = colon == std::string_view::npos ? "" : rest.substr(0, colon);
  const auto port = parse_number<std::uint16_t>(colon == std::string_view::npos ? rest : rest.substr(colon + 1));
  if (!port || *port == 0) return invalid_parameter(kWhere, in_quotes(text) + " has no port from 1 to 65535");
  if (std::ranges::find(kLoopback, host) == kLoopback.end()) {
    return invalid_parameter(kWhere, "the host " + in_quotes(host) +
                                         " is not the sandbox itself; write tcp://127.0.0.1:" + std::to_string(*port));
  }
  return TemplateProbe{*port, ""};
}

CreateSandbox build_spec(const CreateTemplate& wanted) {
  CreateSandbox out;
  out.image = ImageSpec{wanted.image, std::nullopt};
  out.entrypoint = wanted.entrypoint;
  out.env = wanted.env;
  out.resource_limits = wanted.resource_limits.value_or(StringMap());
  return out;
}

std::string encode_template(const TemplateView& view) { return json::serialize(encode(view)); }

std::string encode_template_list(std::span<const TemplateView> items, const PageInfo& page) {
  std::string out = R"({"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    out += encode_template(items[i]);
  }
  return out + R"(],"pagination":)" + encode_page_info(page) + "}";
}

Result<TemplateQuery> decode_template_query(QueryPairs query) {
  const auto read = decode_sandbox_query(query);
  if (!read) return Failure(read.error());
  return TemplateQuery{read->metadata, read->match, read->paging};
}

}  // namespace osb::api
