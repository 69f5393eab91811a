#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "api/lifecycle_hooks.h"
#include "api/lifecycle_volume.h"
#include "api/network_policy.h"
#include "base/error.h"
#include "base/time.h"

// POST /sandboxes: the request as a struct, its decoder (schema: 422) and its rules (400 and the contract's codes).
namespace osb::api {

using StringMap = std::map<std::string, std::string>;

struct ImageLogin {
  std::string username;
  std::string password;

  bool operator==(const ImageLogin&) const = default;
};

struct ImageSpec {
  std::string uri;  // trimmed, not empty
  std::optional<ImageLogin> auth;

  bool operator==(const ImageSpec&) const = default;
};

struct Platform {
  std::string os;  // trimmed and in lower case; check_create() knows which exist
  std::string arch;

  bool operator==(const Platform&) const = default;
};

struct CreateSandbox {
  // Exactly one of the three, or none with a pool. In the record of a sandbox that was made of a template, snapshot_id
  // is the template's own snapshot.
  std::optional<ImageSpec> image;
  std::string snapshot_id;
  std::string template_id;

  std::optional<Platform> platform;
  std::optional<std::chrono::seconds> timeout;  // nothing: lives until deleted
  std::optional<StringMap> resource_limits;     // nothing only with a pool
  std::optional<StringMap> resource_requests;
  StringMap env;                                // entries that were null are left out
  std::optional<StringMap> metadata;            // {} is echoed, nothing is not
  std::vector<std::string> entrypoint;          // empty only with a pool; the snapshot's default is filled in
  std::optional<NetworkPolicy> network_policy;  // its presence, even empty, turns enforcement on
  bool credential_proxy = false;
  bool secure_access = false;
  std::vector<Volume> volumes;
  StringMap extensions;
  Lifecycle lifecycle;

  // extensions.poolRef, trimmed; "" without a pool.
  std::string pool_ref() const;

  bool operator==(const CreateSandbox&) const = default;
};

// The schema: types, ranges and the rules between fields. Errors are 422.
Result<CreateSandbox> decode_create_sandbox(std::string_view body);
// The same for a record, where the fields of a template stand beside its id.
Result<CreateSandbox> decode_recorded_create(std::string_view text);

// Parts that other bodies share; errors are rejected at the reader. A blank uri stays "".
ImageSpec read_image(ObjectReader& reader);
Platform read_platform(ObjectReader& reader);

// For records: decode_recorded_create() reads it back to an equal struct. `with_secrets` keeps registry passwords and
// bucket keys; without them the text may be shown.
std::string encode_create_sandbox(const CreateSandbox& create, bool with_secrets);

// The abilities of a backend, for the rules that depend on them. A text says why not; "" means yes.
struct BackendRules {
  std::string backend = "NATIVE";      // prefix of its codes
  bool kubernetes_quantities = false;  // else Docker's grammar
  bool pools = false;
  std::string no_network_policy;
  std::string no_credential_proxy;
  std::string no_secure_access;
  std::string no_windows;          // why platform.os "windows" cannot be served
  std::int64_t max_sandboxes = 0;  // that its machine carries at once; 0 is unknown
};

// The same with the rules of the server itself.
struct CreateRules : BackendRules {
  Timestamp now{};
  std::optional<std::chrono::seconds> max_timeout;
  std::vector<std::string> allowed_host_paths;
};

// First the source: extensions, poolRef. Then the caller looks the snapshot up. Then check_create(): entrypoint,
// metadata, platform, timeout, resources, environment, lifecycle, secure access, network policy, volumes, in this
// order, which is the contract's.
Result<void> check_create_source(const CreateSandbox& create, const CreateRules& rules);
Result<void> check_create(const CreateSandbox& create, const CreateRules& rules);

// How far an access moves the deadline: lifecycle.renewalPolicy, or its older form
// extensions["access.renew.extend.seconds"], 300 to 86400; nothing when both are absent. 400 when the extension is out
// of range, or the two differ.
Result<std::optional<std::chrono::seconds>> access_renew_seconds(const CreateSandbox& create);

inline constexpr std::string_view kAccessRenewKey = "access.renew.extend.seconds";
inline constexpr std::string_view kPoolRefKey = "poolRef";
// Extensions of this prefix are answered as they were given.
inline constexpr std::string_view kEchoedExtension = "opensandbox.extensions.";
// The sandbox's own id, in its environment.
inline constexpr std::string_view kIdVariable = "OPENSANDBOX_ID";

}  // namespace osb::api
