// Request bodies: every decoder of execd, and the lax reading of the lifecycle API.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/execd_init.h"
#include "api/execd_isolated.h"
#include "api/execd_requests.h"
#include "api/json.h"

namespace {

template <typename T>
void check(const osb::Result<T>& got) {
  if (!got && (got.error().message.empty() || got.error().reason.empty())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace api = osb::api;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check(api::decode_run_command(body));
  check(api::decode_create_session(body));
  check(api::decode_run_in_session(body));
  check(api::decode_create_pty(body));
  check(api::decode_pty_frame(body));
  check(api::decode_path_permissions(body));
  check(api::decode_moves(body));
  check(api::decode_replacements(body));
  check(api::decode_upload_metadata(body));
  check(api::decode_run_code(body));
  check(api::decode_create_code_context(body));
  check(api::decode_initialize_execd(body));
  check(api::decode_create_isolated_session(body));
  check(api::decode_run_isolated(body));

  const auto value = api::parse_json(body);
  if (!value) return 0;
  api::ObjectReader reader(*value, api::kLifecycleReading);
  reader.optional_int64("timeout", 60);
  reader.optional_bool("secureAccess");
  reader.string_map("metadata", api::NullEntry::Refuse);
  reader.string_list("entrypoint");
  reader.array("volumes", [](api::ObjectReader& volume) { volume.required_string("mountPath"); });
  const bool failed = reader.failed();
  if (failed == reader.finish().has_value()) std::abort();
  return 0;
}
