#include "api/lifecycle_create.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"

namespace osb::api {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

std::string trimmed_lower(std::string_view text) {
  std::string out = trimmed(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; });
  return out;
}

// A string that must be there and may be empty.
std::string present_string(ObjectReader& r, std::string_view name) {
  auto text = r.optional_string(name);
  if (!text) r.reject(name, "required");
  return std::move(text).value_or("");
}

StringMap strict_map(ObjectReader& r, std::string_view name) {
  return r.string_map(name, NullEntry::Refuse).value_or(StringMap());
}

void read_entrypoint(ObjectReader& r, CreateSandbox& out) {
  const auto entrypoint = r.string_list("entrypoint");
  if (!entrypoint) return;
  if (entrypoint->empty()) r.reject("entrypoint", "must not be empty");
  for (const std::string& word : *entrypoint) {
    if (word.find('\0') != std::string::npos) r.reject("entrypoint", "must not contain a NUL byte");
  }
  out.entrypoint = *entrypoint;
}

void read_network_policy(ObjectReader& r, CreateSandbox& out) {
  NetworkPolicy& policy = out.network_policy.emplace();
  policy.default_action = r.optional_string("defaultAction").value_or("");
  r.array("egress", [&](ObjectReader& rule) {
    NetworkRule item;
    item.action = present_string(rule, "action");
    item.target = rule.required_string("target");
    policy.egress.push_back(std::move(item));
  });
}

bool has_field(const json::value* value) {
  const auto* object = value != nullptr ? value->if_object() : nullptr;
  return object != nullptr && std::ranges::any_of(*object, [](const auto& field) { return !field.value().is_null(); });
}

// The rules between fields.
void check_fields(ObjectReader& r, const CreateSandbox& create) {
  if (create.env.contains("OPENSANDBOX_LIFECYCLE")) {
    r.reject("env", "OPENSANDBOX_LIFECYCLE is reserved. Use the lifecycle request field instead.");
  }
  if (!create.template_id.empty()) return;  // the server has none
  const bool image = create.image.has_value();
  const bool snapshot = !create.snapshot_id.empty();
  if (!create.pool_ref().empty()) {
    if (snapshot) r.reject("snapshotId", "cannot be combined with extensions.poolRef");
    if (create.credential_proxy) r.reject("credentialProxy", "cannot be combined with extensions.poolRef");
  } else {
    if (image && snapshot) r.reject("", "image and snapshotId cannot be combined");
    if (!image && !snapshot) r.reject("", "one of image and snapshotId is needed");
    if (image && create.entrypoint.empty()) r.reject("entrypoint", "required with an image");
    if (!create.resource_limits) r.reject("resourceLimits", "required; {} sets no limits");
  }
  if (create.credential_proxy && !create.network_policy) r.reject("credentialProxy", "needs a networkPolicy");
}

json::object encode_map(const StringMap& map) {
  json::object out;
  for (const auto& [key, value] : map) out.emplace(key, value);
  return out;
}

json::object encode_policy(const NetworkPolicy& policy) {
  json::object out;
  if (!policy.default_action.empty()) out["defaultAction"] = policy.default_action;
  json::array rules;
  for (const NetworkRule& rule : policy.egress) rules.push_back({{"action", rule.action}, {"target", rule.target}});
  out["egress"] = std::move(rules);
  return out;
}

}  // namespace

std::string CreateSandbox::pool_ref() const {
  const auto found = extensions.find(std::string(kPoolRefKey));
  return found == extensions.end() ? "" : trimmed(found->second);
}

ImageSpec read_image(ObjectReader& r) {
  ImageSpec image;
  image.uri = trimmed(present_string(r, "uri"));
  r.object("auth", [&](ObjectReader& auth) {
    ImageLogin& login = image.auth.emplace();
    login.username = present_string(auth, "username");
    login.password = present_string(auth, "password");
  });
  return image;
}

Platform read_platform(ObjectReader& r) {
  Platform platform;
  platform.os = trimmed_lower(present_string(r, "os"));
  platform.arch = trimmed_lower(present_string(r, "arch"));
  return platform;
}

Result<CreateSandbox> decode_create_sandbox(std::string_view body) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  CreateSandbox out;
  r.object("image", [&](ObjectReader& image) {
    if (ImageSpec spec = read_image(image); !spec.uri.empty()) out.image = std::move(spec);
  });
  out.snapshot_id = trimmed(r.optional_string("snapshotId").value_or(""));
  out.template_id = trimmed(r.optional_string("templateId").value_or(""));
  out.has_lifecycle = r.object("lifecycle", [](ObjectReader&) {}) && has_field(r.find("lifecycle"));
  r.object("platform", [&](ObjectReader& platform) { out.platform = read_platform(platform); });
  if (const auto timeout = r.optional_int64("timeout", 60)) out.timeout = std::chrono::seconds(*timeout);
  out.resource_limits = r.string_map("resourceLimits", NullEntry::Refuse);
  out.resource_requests = r.string_map("resourceRequests", NullEntry::Refuse);
  out.env = r.string_map("env", NullEntry::Skip).value_or(StringMap());
  out.metadata = r.string_map("metadata", NullEntry::Refuse);
  read_entrypoint(r, out);
  r.object("networkPolicy", [&](ObjectReader& policy) { read_network_policy(policy, out); });
  r.object("credentialProxy",
           [&](ObjectReader& proxy) { out.credential_proxy = proxy.optional_bool("enabled").value_or(false); });
  out.secure_access = r.optional_bool("secureAccess").value_or(false);
  out.volumes = read_volumes(r);
  out.extensions = strict_map(r, "extensions");
  check_fields(r, out);
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  if (out.entrypoint.empty() && !out.snapshot_id.empty()) out.entrypoint = {"tail", "-f", "/dev/null"};
  return out;
}

std::string encode_create_sandbox(const CreateSandbox& create, bool with_secrets) {
  json::object out;
  if (create.image) {
    json::object image{{"uri", create.image->uri}};
    if (create.image->auth && with_secrets) {
      image["auth"] = {{"username", create.image->auth->username}, {"password", create.image->auth->password}};
    }
    out["image"] = std::move(image);
  }
  if (!create.snapshot_id.empty()) out["snapshotId"] = create.snapshot_id;
  if (create.platform) out["platform"] = {{"os", create.platform->os}, {"arch", create.platform->arch}};
  if (create.timeout) out["timeout"] = create.timeout->count();
  if (create.resource_limits) out["resourceLimits"] = encode_map(*create.resource_limits);
  if (create.resource_requests) out["resourceRequests"] = encode_map(*create.resource_requests);
  if (!create.env.empty()) out["env"] = encode_map(create.env);
  if (create.metadata) out["metadata"] = encode_map(*create.metadata);
  if (!create.entrypoint.empty()) out["entrypoint"] = json::array(create.entrypoint.begin(), create.entrypoint.end());
  if (create.network_policy) out["networkPolicy"] = encode_policy(*create.network_policy);
  if (create.credential_proxy) out["credentialProxy"] = {{"enabled", true}};
  if (create.secure_access) out["secureAccess"] = true;
  if (!create.volumes.empty()) out["volumes"] = encode_volumes(create.volumes, with_secrets);
  if (!create.extensions.empty()) out["extensions"] = encode_map(create.extensions);
  return json::serialize(out);
}

}  // namespace osb::api
