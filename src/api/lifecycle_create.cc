#include "api/lifecycle_create.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "api/lifecycle_error.h"
#include "base/text.h"

namespace osb::api {
namespace {

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

// A template brings the workload along.
void check_template_fields(ObjectReader& r, const CreateSandbox& create) {
  std::string given;
  for (const std::string_view name : {"credentialProxy", "entrypoint", "env", "image", "lifecycle", "platform",
                                      "resourceLimits", "resourceRequests", "secureAccess", "snapshotId", "volumes"}) {
    const bool is_default = name == "secureAccess" && !create.secure_access;  // official clients send the default
    if (r.find(name) != nullptr && !is_default) given += (given.empty() ? "" : ", ") + std::string(name);
  }
  if (!given.empty()) r.reject("templateId", "cannot be combined with " + given);
  if (!create.timeout) r.reject("timeout", "required with templateId");
}

// The rules between fields.
void check_fields(ObjectReader& r, const CreateSandbox& create) {
  if (create.env.contains(std::string(kHooksVariable))) {
    r.reject("env", "OPENSANDBOX_LIFECYCLE is reserved. Use the lifecycle request field instead.");
  }
  if (!create.template_id.empty()) return check_template_fields(r, create);
  const bool image = create.image.has_value();
  const bool snapshot = !create.snapshot_id.empty();
  if (!create.pool_ref().empty()) {
    if (snapshot) r.reject("snapshotId", "cannot be combined with extensions.poolRef");
    if (!create.lifecycle.empty()) r.reject("lifecycle", "cannot be combined with extensions.poolRef");
    return;  // check_create_source() has the other rules about pools
  }
  if (image && snapshot) r.reject("", "image and snapshotId cannot be combined");
  if (!image && !snapshot) r.reject("", "one of image and snapshotId is needed");
  if (image && create.entrypoint.empty()) r.reject("entrypoint", "required with an image");
  if (!create.resource_limits) r.reject("resourceLimits", "required; {} sets no limits");
  if (create.credential_proxy && !create.network_policy) r.reject("credentialProxy", "needs a networkPolicy");
}

json::object encode_map(const StringMap& map) {
  json::object out;
  for (const auto& [key, value] : map) out.emplace(key, value);
  return out;
}

}  // namespace

std::string CreateSandbox::pool_ref() const {
  const auto found = extensions.find(std::string(kPoolRefKey));
  return found == extensions.end() ? "" : std::string(trimmed(found->second));
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
  platform.os = lower(trimmed(present_string(r, "os")));
  platform.arch = lower(trimmed(present_string(r, "arch")));
  return platform;
}

namespace {

enum class Source { Request, Record };

Result<CreateSandbox> decode_create(std::string_view body, Source source) {
  const auto value = parse_lifecycle_body(body);
  if (!value) return Failure(value.error());
  ObjectReader r(*value, kLifecycleReading);
  CreateSandbox out;
  r.object("image", [&](ObjectReader& image) {
    if (ImageSpec spec = read_image(image); !spec.uri.empty()) out.image = std::move(spec);
  });
  out.snapshot_id = trimmed(r.optional_string("snapshotId").value_or(""));
  out.template_id = trimmed(r.optional_string("templateId").value_or(""));
  r.object("platform", [&](ObjectReader& platform) { out.platform = read_platform(platform); });
  if (const auto timeout = r.optional_int64("timeout", 60)) out.timeout = std::chrono::seconds(*timeout);
  out.resource_limits = r.string_map("resourceLimits", NullEntry::Refuse);
  out.resource_requests = r.string_map("resourceRequests", NullEntry::Refuse);
  out.env = r.string_map("env", NullEntry::Skip).value_or(StringMap());
  out.metadata = r.string_map("metadata", NullEntry::Refuse);
  read_entrypoint(r, out);
  out.network_policy = read_network_policy(r, "networkPolicy");
  r.object("credentialProxy",
           [&](ObjectReader& proxy) { out.credential_proxy = proxy.optional_bool("enabled").value_or(false); });
  out.secure_access = r.optional_bool("secureAccess").value_or(false);
  out.volumes = read_volumes(r);
  out.extensions = strict_map(r, "extensions");
  out.lifecycle = read_lifecycle(r);
  if (source == Source::Request || out.template_id.empty()) check_fields(r, out);
  if (auto done = finish_schema(r); !done) return Failure(done.error());
  if (out.entrypoint.empty() && !out.snapshot_id.empty()) out.entrypoint = {"tail", "-f", "/dev/null"};
  return out;
}

}  // namespace

Result<CreateSandbox> decode_create_sandbox(std::string_view body) { return decode_create(body, Source::Request); }
Result<CreateSandbox> decode_recorded_create(std::string_view text) { return decode_create(text, Source::Record); }

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
  if (!create.template_id.empty()) out["templateId"] = create.template_id;
  if (create.platform) out["platform"] = {{"os", create.platform->os}, {"arch", create.platform->arch}};
  if (create.timeout) out["timeout"] = create.timeout->count();
  if (create.resource_limits) out["resourceLimits"] = encode_map(*create.resource_limits);
  if (create.resource_requests) out["resourceRequests"] = encode_map(*create.resource_requests);
  if (!create.env.empty()) out["env"] = encode_map(create.env);
  if (create.metadata) out["metadata"] = encode_map(*create.metadata);
  if (!create.entrypoint.empty()) out["entrypoint"] = json::array(create.entrypoint.begin(), create.entrypoint.end());
  if (create.network_policy) out["networkPolicy"] = to_json(*create.network_policy);
  if (create.credential_proxy) out["credentialProxy"] = {{"enabled", true}};
  if (create.secure_access) out["secureAccess"] = true;
  if (!create.volumes.empty()) out["volumes"] = encode_volumes(create.volumes, with_secrets);
  if (!create.extensions.empty()) out["extensions"] = encode_map(create.extensions);
  if (!create.lifecycle.empty()) out["lifecycle"] = encode_lifecycle(create.lifecycle);
  return json::serialize(out);
}

}  // namespace osb::api
