#include "cli/sandbox/request_file.h"

#include <algorithm>
#include <array>
#include <opensandbox/types.h>

#include "base/text.h"
#include "cli/read_input.h"

namespace osb::cli {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 16> kFields = {
    "image",   "templateId", "snapshotId", "platform",   "timeout",       "resourceLimits",  "resourceRequests",
    "env",     "metadata",   "lifecycle",  "entrypoint", "networkPolicy", "credentialProxy", "secureAccess",
    "volumes", "extensions"};
constexpr std::array<std::string_view, 3> kSources = {"image", "templateId", "snapshotId"};

bool has(const json::object& body, std::string_view name) {
  const json::value* value = body.if_contains(name);
  return value != nullptr && !value->is_null();
}

Expected<void> check_names(const json::object& body, const std::string& path) {
  std::vector<std::string> unknown, known(kFields.begin(), kFields.end());
  for (const auto& field : body) {
    if (std::ranges::find(kFields, std::string_view(field.key())) == kFields.end()) unknown.emplace_back(field.key());
  }
  std::ranges::sort(unknown);
  if (unknown.empty()) return {};
  return invalid("Request file '" + path + "' has unsupported fields: " + joined(unknown) +
                 ". Supported fields: " + joined(known) + ".");
}

Expected<std::string> source_of(const json::object& body, const std::string& path) {
  std::vector<std::string> given;
  for (const std::string_view name : kSources) {
    if (has(body, name)) given.emplace_back(name);
  }
  if (given.empty()) {
    return invalid("Request file '" + path + "' must set one of 'image', 'templateId', or 'snapshotId'.");
  }
  if (given.size() > 1) {
    return invalid("Request file '" + path + "' must set only one of 'image', 'templateId', 'snapshotId'; got " +
                   joined(given) + ".");
  }
  return given.front();
}

// The image's name or the id.
Expected<std::string> source_value(json::object& body, const std::string& source, const std::string& path) {
  json::value& value = body[source];
  if (source == "image" && value.is_string()) value = json::object{{"uri", value.get_string()}};
  const json::value* text = &value;
  if (source == "image") text = value.is_object() ? value.get_object().if_contains("uri") : nullptr;
  if (text == nullptr || !text->is_string() || text->get_string().empty()) {
    return invalid("Request file field '" + source + "' in '" + path + "' must be " +
                   (source == "image" ? "a string or an object with a non-empty 'uri'." : "a non-empty string."));
  }
  return std::string(text->get_string());
}

Expected<void> read_timeout(const json::object& body, const std::string& path, RequestFile& out) {
  const json::value* given = body.if_contains("timeout");
  if (given == nullptr) return {};
  out.has_timeout = true;
  if (given->is_null()) return {};
  const std::int64_t* seconds = given->if_int64();
  if (seconds == nullptr || *seconds <= 0 || *seconds > 1'000'000'000) {
    return invalid("Request file field 'timeout' in '" + path +
                   "' must be a positive integer of seconds, or null for manual cleanup.");
  }
  out.timeout = static_cast<int>(*seconds);
  return {};
}

// As an SDK would ask. A template has all of it.
void add_defaults(RequestFile& file) {
  if (file.source == "templateId") return;
  const opensandbox::CreateOptions defaults;
  if (!has(file.body, "resourceLimits")) {
    json::object limits;
    for (const auto& [name, value] : defaults.resource_limits) limits[name] = value;
    file.body["resourceLimits"] = std::move(limits);
  }
  if (!has(file.body, "entrypoint") && file.source == "image") {
    file.body["entrypoint"] = json::array(defaults.entrypoint.begin(), defaults.entrypoint.end());
  }
  if (!file.has_timeout && defaults.timeout) file.body["timeout"] = defaults.timeout->count();
}

}  // namespace

Expected<RequestFile> read_request_file(const std::string& path) {
  auto value = read_json_file(path, "request");
  if (!value) return failed(value.error());
  if (!value->is_object()) return invalid("Request file '" + path + "' must contain a JSON object.");
  RequestFile out;
  out.body = std::move(value->get_object());
  if (auto fine = check_names(out.body, path); !fine) return failed(fine.error());
  auto source = source_of(out.body, path);
  if (!source) return failed(source.error());
  out.source = std::move(*source);
  auto named = source_value(out.body, out.source, path);
  if (!named) return failed(named.error());
  out.value = std::move(*named);
  if (auto fine = read_timeout(out.body, path, out); !fine) return failed(fine.error());
  if (out.source == "templateId" && !out.has_timeout) {
    return invalid("'timeout' is required in request file '" + path + "' when 'templateId' is set (in seconds).");
  }
  if (out.source == "templateId" && !out.timeout) {
    return invalid("'timeout': null (manual cleanup) is not supported in template mode.");
  }
  if (json::value* proxy = out.body.if_contains("credentialProxy"); proxy != nullptr && proxy->is_bool()) {
    *proxy = json::object{{"enabled", proxy->get_bool()}};
  }
  add_defaults(out);
  return out;
}

}  // namespace osb::cli
