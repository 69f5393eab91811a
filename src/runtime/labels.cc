#include "runtime/labels.h"

namespace osb::runtime {
namespace {

// Labels that engines and images add by themselves.
constexpr std::string_view kForeignPrefixes[] = {"org.opencontainers.image.", "com.docker.", "desktop.docker."};

bool is_metadata(std::string_view name) {
  if (name.starts_with(label::kPrefix)) return false;
  for (const std::string_view prefix : kForeignPrefixes) {
    if (name.starts_with(prefix)) return false;
  }
  return true;
}

// "" counts as absent: it is how a label is hidden that an image brought along.
const std::string* find(const api::StringMap& labels, std::string_view name) {
  const auto found = labels.find(std::string(name));
  return found == labels.end() || found->second.empty() ? nullptr : &found->second;
}

std::string with_offset(Timestamp time) {
  std::string text = format_timestamp(time);
  text.pop_back();
  return text + "+00:00";
}

}  // namespace

api::StringMap make_labels(const std::string& id, const api::CreateSandbox& create,
                           std::optional<Timestamp> expires_at) {
  api::StringMap out;
  if (create.metadata) out = *create.metadata;
  const auto set = [&](std::string_view name, std::string value) { out[std::string(name)] = std::move(value); };
  set(label::kId, id);
  if (expires_at) {
    set(label::kExpiresAt, with_offset(*expires_at));
  } else {
    set(label::kManualCleanup, "true");
  }
  if (create.platform) {
    set(label::kPlatformOs, create.platform->os);
    set(label::kPlatformArch, create.platform->arch);
  }
  if (!create.snapshot_id.empty()) set(label::kSnapshotId, create.snapshot_id);
  if (!create.template_id.empty()) set(label::kTemplateId, create.template_id);
  if (const auto renew = api::access_renew_seconds(create); renew && *renew) {
    set(label::kAccessRenew, std::to_string((*renew)->count()));
  }
  if (create.secure_access) set(label::kSecureAccess, "true");
  if (create.lifecycle.idle) set(label::kIdlePolicy, api::encode_idle_policy(*create.lifecycle.idle));
  if (create.lifecycle.pre_start) set(label::kHooks, "true");
  for (const auto& [name, value] : create.extensions) {
    if (!name.starts_with(api::kEchoedExtension)) continue;
    set(std::string(label::kExtension) + name.substr(api::kEchoedExtension.size()), value);
  }
  return out;
}

Result<Marked> read_labels(const std::string& id, const api::StringMap& labels) {
  const std::string* owner = find(labels, label::kId);
  if (owner == nullptr || *owner != id) return fail(Code::NotFound, "sandbox " + id + " is not ours");
  Marked out;
  if (const std::string* deadline = find(labels, label::kExpiresAt)) {
    const auto time = parse_timestamp(*deadline);
    if (!time) return fail(Code::InvalidRequest, "label " + std::string(label::kExpiresAt) + " is not a time");
    out.expires_at = *time;
  } else if (find(labels, label::kManualCleanup) == nullptr) {
    return fail(Code::InvalidRequest, "it has neither label " + std::string(label::kExpiresAt) + " nor " +
                                          std::string(label::kManualCleanup));
  }
  const std::string* os = find(labels, label::kPlatformOs);
  const std::string* arch = find(labels, label::kPlatformArch);
  if (os != nullptr && arch != nullptr) out.platform = api::Platform{*os, *arch};
  if (const std::string* snapshot = find(labels, label::kSnapshotId)) out.snapshot_id = *snapshot;
  if (const std::string* made_of = find(labels, label::kTemplateId)) out.template_id = *made_of;
  if (const std::string* renew = find(labels, label::kAccessRenew)) out.access_renew = *renew;
  out.secure_access = find(labels, label::kSecureAccess) != nullptr;
  if (const std::string* idle = find(labels, label::kIdlePolicy)) out.idle = api::decode_idle_policy(*idle);
  api::StringMap metadata;
  for (const auto& [name, value] : labels) {
    if (is_metadata(name)) metadata.emplace(name, value);
    if (name.starts_with(label::kExtension)) {
      out.extensions.emplace(std::string(api::kEchoedExtension) + name.substr(label::kExtension.size()), value);
    }
  }
  if (!metadata.empty()) out.metadata = std::move(metadata);
  return out;
}

}  // namespace osb::runtime
