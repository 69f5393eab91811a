// Bodies of the lifecycle API. Nothing crashes a decoder; every refusal is a 422 with a code; what was accepted reads
// back from its record as the same request.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/lifecycle_create.h"
#include "api/lifecycle_error.h"
#include "api/lifecycle_image.h"
#include "api/lifecycle_metadata.h"
#include "api/lifecycle_pool.h"
#include "api/lifecycle_query.h"
#include "api/lifecycle_sandbox.h"
#include "api/lifecycle_snapshot.h"

namespace {

namespace api = osb::api;

template <typename T>
void check(const osb::Result<T>& got, osb::Code code = osb::Code::Unprocessable) {
  if (got) return;
  if (got.error().code != code || got.error().reason.empty() || got.error().message.empty()) std::abort();
  if (!api::parse_json(api::encode_error(got.error()))) std::abort();
}

void check_create(std::string_view body) {
  const auto create = api::decode_create_sandbox(body);
  check(create);
  if (!create) return;
  const auto again = api::decode_create_sandbox(api::encode_create_sandbox(*create, true));
  if (!again || *again != *create) std::abort();
  if (!api::parse_json(api::encode_create_sandbox(*create, false))) std::abort();
  api::CreateRules rules;
  rules.allowed_host_paths = {"/srv"};
  check(api::check_create_source(*create, rules), osb::Code::InvalidRequest);
  check(api::check_create(*create, rules), osb::Code::InvalidRequest);
  const api::Status status{"Running", "", "", {}};
  const api::SandboxView view{"id", &*create, &status, create->metadata ? &*create->metadata : nullptr, {}, {}};
  if (!api::parse_json(api::encode_sandbox(view))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check_create(body);
  check(api::decode_metadata_patch(body));
  check(api::decode_renew(body));
  check(api::decode_create_snapshot(body));
  check(api::decode_create_pool(body));
  check(api::decode_update_pool(body));
  check(api::decode_pull_image(body));
  check(api::decode_metrics_event(body));
  const std::pair<std::string, std::string> pairs[] = {{"metadata", std::string(body)}};
  check(api::decode_sandbox_query(pairs), osb::Code::InvalidRequest);
  (void)api::decode_wait({}, body);
  return 0;
}
