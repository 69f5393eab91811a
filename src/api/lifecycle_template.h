#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/lifecycle_create.h"
#include "api/lifecycle_query.h"
#include "base/error.h"
#include "base/time.h"

// Templates: an image whose entrypoint was started and warmed up, kept as a snapshot for creates.
namespace osb::api {

// How a build knows that its sandbox is warm.
struct TemplateReadiness {
  std::string probe;                                   // "tcp://127.0.0.1:80", "cmd://.."; "" is none
  std::optional<std::chrono::seconds> warmup_seconds;  // from the answer of the probe on, or from the start without one

  bool operator==(const TemplateReadiness&) const = default;
};

struct CreateTemplate {
  std::string image;                         // trimmed, not empty
  std::string publish;                       // trimmed, not empty
  std::optional<StringMap> resource_limits;  // cpu, memory, disk
  std::vector<std::string> entrypoint;       // never empty
  StringMap env;
  std::optional<StringMap> metadata;
  std::optional<TemplateReadiness> readiness;
  std::string format;

  bool operator==(const CreateTemplate&) const = default;
};

// The schema: unknown fields too are 422.
Result<CreateTemplate> decode_create_template(std::string_view body);
// For records: decode_create_template() reads it back to an equal struct.
std::string encode_create_template(const CreateTemplate& wanted);
// The rules (400): names of limits and of variables, labels, readiness, format. `publish` is checked by its publisher.
Result<void> check_create_template(const CreateTemplate& wanted);

// readiness.probe, read.
struct TemplateProbe {
  std::uint16_t port = 0;  // of the sandbox's loopback; 0 with a command
  std::string command;     // for a shell
};
// Code::InvalidRequest at /readiness/probe.
Result<TemplateProbe> parse_template_probe(std::string_view text);

// The create of a sandbox that builds the template; the create of one that is made of it differs in its source.
CreateSandbox build_spec(const CreateTemplate& wanted);

namespace template_phase {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kBuilding = "Building";
inline constexpr std::string_view kSucceeded = "Succeeded";
inline constexpr std::string_view kFailed = "Failed";
inline constexpr std::string_view kDeleting = "Deleting";  // for the server itself: the API shows none of these
}  // namespace template_phase

struct TemplateStatus {
  std::string phase;
  std::string manifest_ref;  // where it was published; "" until it has succeeded
  std::string message;       // the step of a build, or why it failed

  bool operator==(const TemplateStatus&) const = default;
};

struct TemplateView {
  std::string_view id;
  const CreateTemplate* spec = nullptr;
  const TemplateStatus* status = nullptr;
  Timestamp created_at{};
  Timestamp updated_at{};
};
std::string encode_template(const TemplateView& view);
std::string encode_template_list(std::span<const TemplateView> items, const PageInfo& page);

struct TemplateQuery {
  std::map<std::string, std::string> metadata = {};  // all must match
  std::optional<std::string> match = {};             // the beginning of the id
  Paging paging = {};
};
Result<TemplateQuery> decode_template_query(QueryPairs query);

}  // namespace osb::api
