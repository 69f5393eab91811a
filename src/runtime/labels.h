#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/lifecycle_create.h"
#include "base/error.h"
#include "base/time.h"

namespace osb::runtime {

// Labels that a sandbox of ours carries, with the contract's names, so that it is known again by a server that has lost
// its records or never had them. The deadline is the one it was made with: renewals are in the records only.
namespace label {
inline constexpr std::string_view kPrefix = "opensandbox.io/";
inline constexpr std::string_view kId = "opensandbox.io/id";
inline constexpr std::string_view kExpiresAt = "opensandbox.io/expires-at";
inline constexpr std::string_view kManualCleanup = "opensandbox.io/manual-cleanup";
inline constexpr std::string_view kPlatformOs = "opensandbox.io/platform-os";
inline constexpr std::string_view kPlatformArch = "opensandbox.io/platform-arch";
inline constexpr std::string_view kSnapshotId = "opensandbox.io/snapshot-id";
inline constexpr std::string_view kTemplateId = "opensandbox.io/template-id";
inline constexpr std::string_view kAccessRenew = "opensandbox.io/access-renew-extend-seconds";
inline constexpr std::string_view kSecureAccess = "opensandbox.io/secure-access";
inline constexpr std::string_view kHooks =
    "opensandbox.io/lifecycle-hooks";  // "true": its end may be a failed preStart
inline constexpr std::string_view kIdlePolicy = "opensandbox.io/idle-policy";
inline constexpr std::string_view kExtension = "opensandbox.io/extensions.";  // of api::kEchoedExtension
}  // namespace label

api::StringMap make_labels(const std::string& id, const api::CreateSandbox& create,
                           std::optional<Timestamp> expires_at);

// The data of a sandbox in its labels.
struct Marked {
  std::optional<Timestamp> expires_at;  // nothing: lives until deleted
  std::optional<api::Platform> platform;
  std::string snapshot_id;
  std::string template_id;
  std::optional<std::string> access_renew;  // as extensions["access.renew.extend.seconds"]
  bool secure_access = false;
  std::optional<api::IdlePolicy> idle;
  std::optional<api::StringMap> metadata;
  api::StringMap extensions;  // those that are echoed
};
// Code::NotFound: not ours. Code::InvalidRequest: ours, but they do not say when it ends.
Result<Marked> read_labels(const std::string& id, const api::StringMap& labels);

}  // namespace osb::runtime
