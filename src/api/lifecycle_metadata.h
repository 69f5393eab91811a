#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

// Metadata are labels as Kubernetes has them, on every backend.
namespace osb::api {

using Metadata = std::map<std::string, std::string>;
// RFC 7396 on a flat map: nothing deletes the key.
using MetadataPatch = std::map<std::string, std::optional<std::string>>;

inline constexpr std::string_view kReservedLabelPrefix = "opensandbox.io/";

// [prefix/]name: a DNS name of at most 253 characters, a name of at most 63. 400 SANDBOX::INVALID_METADATA_LABEL names
// the key at `where`.
Result<void> check_label_key(std::string_view key, std::string_view where);
Result<void> check_label_value(std::string_view key, std::string_view value, std::string_view where);

// Keys, values and the reserved prefix of a create's metadata.
Result<void> check_metadata(const Metadata& metadata);

// PATCH /sandboxes/{id}/metadata: the schema (422). The caller looks the sandbox up, then check_metadata_patch():
// a reserved key, even one to delete, is 400 INVALID_METADATA_LABEL; keys and values to add must be labels.
Result<MetadataPatch> decode_metadata_patch(std::string_view body);
Result<void> check_metadata_patch(const MetadataPatch& patch);

// The merge itself; cannot fail.
void apply_patch(Metadata& metadata, const MetadataPatch& patch);

}  // namespace osb::api
