#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "base/error.h"

// Errors of the lifecycle API. Error::reason is the contract's `code`, Error::code decides the status:
// Code::Unprocessable (422) is a body, query or path that breaks its schema, Code::InvalidRequest (400) a value that is
// well formed and cannot be served. The message starts with where it is: "/volumes/0/name: ..." in the body,
// "query/pageSize: ..." or "path/port: ..." elsewhere, so that clients and `detail` can point at it.
namespace osb::api {

namespace reason {
inline constexpr std::string_view kInvalidParameter = "SANDBOX::INVALID_PARAMETER";
inline constexpr std::string_view kInvalidMetadataLabel = "SANDBOX::INVALID_METADATA_LABEL";
inline constexpr std::string_view kReservedMetadataLabel = "INVALID_METADATA_LABEL";  // in a patch
inline constexpr std::string_view kInvalidMetadataFormat = "INVALID_METADATA_FORMAT";
inline constexpr std::string_view kUnsupportedPoolRef = "SANDBOX::UNSUPPORTED_POOL_REF";
inline constexpr std::string_view kApiNotSupported = "SANDBOX::API_NOT_SUPPORTED";
inline constexpr std::string_view kIdempotencyConflict = "SANDBOX::IDEMPOTENCY_CONFLICT";
inline constexpr std::string_view kCapacityExceeded = "SANDBOX::CAPACITY_EXCEEDED";
inline constexpr std::string_view kSnapshotNotFound = "SNAPSHOT::NOT_FOUND";
inline constexpr std::string_view kSnapshotNotReady = "SNAPSHOT::NOT_READY";
inline constexpr std::string_view kSnapshotInvalidRestoreConfig = "SNAPSHOT::INVALID_RESTORE_CONFIG";
inline constexpr std::string_view kSnapshotInvalidSourceState = "SNAPSHOT::INVALID_SOURCE_STATE";
inline constexpr std::string_view kSnapshotInvalidState = "SNAPSHOT::INVALID_STATE";
inline constexpr std::string_view kSnapshotDeleteConflict = "SNAPSHOT::DELETE_CONFLICT";
inline constexpr std::string_view kSnapshotNotImplemented = "SNAPSHOT::NOT_IMPLEMENTED";
inline constexpr std::string_view kTemplateNotFound = "FSB::TEMPLATE_NOT_FOUND";
inline constexpr std::string_view kTemplateConflict = "FSB::TEMPLATE_CONFLICT";
inline constexpr std::string_view kTemplatesNotSupported = "FSB::API_NOT_SUPPORTED";
inline constexpr std::string_view kPoolNotSupported = "KUBERNETES::POOL_NOT_SUPPORTED";
inline constexpr std::string_view kPoolNotFound = "KUBERNETES::POOL_NOT_FOUND";
inline constexpr std::string_view kPoolAlreadyExists = "KUBERNETES::POOL_ALREADY_EXISTS";
inline constexpr std::string_view kPoolApiError = "KUBERNETES::POOL_API_ERROR";
inline constexpr std::string_view kScopeUnsupported = "DIAGNOSTICS_SCOPE_UNSUPPORTED";
inline constexpr std::string_view kDiagnosticsNotImplemented = "DIAGNOSTICS_NOT_IMPLEMENTED";
inline constexpr std::string_view kMissingApiKey = "MISSING_API_KEY";
inline constexpr std::string_view kInvalidApiKey = "INVALID_API_KEY";
inline constexpr std::string_view kAdministratorOnly = "ADMINISTRATOR_ONLY";
inline constexpr std::string_view kVolumeDuplicateName = "VOLUME::DUPLICATE_NAME";
inline constexpr std::string_view kVolumeInvalidSubPath = "VOLUME::INVALID_SUB_PATH";
inline constexpr std::string_view kVolumeInvalidHostPath = "VOLUME::INVALID_HOST_PATH";
inline constexpr std::string_view kVolumeHostPathNotAllowed = "VOLUME::HOST_PATH_NOT_ALLOWED";
inline constexpr std::string_view kVolumeInvalidOssfsOption = "VOLUME::INVALID_OSSFS_OPTION";
}  // namespace reason

// A code that carries its backend's name: ("NATIVE", "SANDBOX_NOT_FOUND") gives NATIVE::SANDBOX_NOT_FOUND.
std::string backend_reason(std::string_view backend, std::string_view suffix);

Failure refuse(Code code, std::string_view reason, std::string message);
// 400 SANDBOX::INVALID_PARAMETER at a place.
Failure invalid_parameter(std::string_view where, std::string_view why);
// 422 SANDBOX::INVALID_PARAMETER at a place.
Failure unprocessable(std::string_view where, std::string_view why);
// An error of json.h as a 422.
Failure unprocessable(Error error);

// A body as JSON; an invalid body is a 422.
Result<json::value> parse_lifecycle_body(std::string_view body);
// A decoder's end: the reader's first error as a 422.
Result<void> finish_schema(const ObjectReader& reader);

// {"code","message"}, both never empty; 422 adds "detail":[{"type","loc","msg"}] built from the message's place.
std::string encode_error(const Error& error);

}  // namespace osb::api
