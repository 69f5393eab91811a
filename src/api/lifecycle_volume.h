#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/json.h"
#include "base/error.h"

namespace osb::api {

struct HostVolume {
  std::string path;  // absolute, or with a Windows drive

  bool operator==(const HostVolume&) const = default;
};

struct PvcVolume {  // a named volume on native and Docker
  std::string claim_name;
  bool create_if_not_exists = true;
  bool delete_on_sandbox_termination = false;
  std::string storage_class;  // "" is absent, here and below
  std::string storage;
  std::optional<std::vector<std::string>> access_modes;

  bool operator==(const PvcVolume&) const = default;
};

struct OssfsVolume {
  std::string bucket;
  std::string endpoint;
  std::string version = "2.0";  // or "1.0"
  std::vector<std::string> options;
  std::string access_key_id;
  std::string access_key_secret;

  bool operator==(const OssfsVolume&) const = default;
};

struct Volume {
  std::string name;
  std::string mount_path;  // starts with '/', without NUL
  bool read_only = false;
  std::string sub_path;  // "" is none
  // Exactly one.
  std::optional<HostVolume> host;
  std::optional<PvcVolume> pvc;
  std::optional<OssfsVolume> ossfs;

  bool operator==(const Volume&) const = default;
};

// Reads /volumes; errors against the schema are rejected at the reader.
std::vector<Volume> read_volumes(ObjectReader& reader);
json::array encode_volumes(std::span<const Volume> volumes, bool with_secrets);

// The rules beyond the schema, in the contract's order; each 400 has its VOLUME:: code. Lexical only: the backend
// checks again on real paths when it mounts. An empty allow-list refuses every host path.
Result<void> check_volumes(std::span<const Volume> volumes, std::span<const std::string> allowed_host_paths);

// Equal to an allowed prefix, or below it at a '/'. Backslashes count as '/', drive letters have no case.
bool host_path_allowed(std::string_view path, std::span<const std::string> allowed);

}  // namespace osb::api
