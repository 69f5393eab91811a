// Templates and lifecycle hooks. Nothing crashes a decoder; every refusal has a code and a message; what was accepted
// reads back as the same value.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/lifecycle_error.h"
#include "api/lifecycle_hooks.h"
#include "api/lifecycle_template.h"

namespace {

namespace api = osb::api;

template <typename T>
void check(const osb::Result<T>& got, osb::Code code = osb::Code::Unprocessable) {
  if (got) return;
  if (got.error().code != code || got.error().reason.empty() || got.error().message.empty()) std::abort();
  if (!api::parse_json(api::encode_error(got.error()))) std::abort();
}

void check_template(std::string_view body) {
  const auto wanted = api::decode_create_template(body);
  check(wanted);
  if (!wanted) return;
  const auto again = api::decode_create_template(api::encode_create_template(*wanted));
  if (!again || *again != *wanted) std::abort();
  check(api::check_create_template(*wanted), osb::Code::InvalidRequest);
  (void)api::build_spec(*wanted);
  const api::TemplateStatus status{"Succeeded", "", ""};
  if (!api::parse_json(api::encode_template({.id = "id", .spec = &*wanted, .status = &status}))) std::abort();
}

void check_hooks(std::string_view text) {
  const auto hooks = api::decode_hooks(text);
  if (!hooks && hooks.error().message.empty()) std::abort();
  if (!hooks) return;
  check(api::check_lifecycle(*hooks, {}), osb::Code::InvalidRequest);
  const std::string encoded = api::encode_hooks(*hooks);
  if (encoded.empty() == hooks->has_hooks()) std::abort();
  if (encoded.empty()) return;
  const auto again = api::decode_hooks(encoded);
  if (!again || *again != *hooks) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  check_template(body);
  check_hooks(body);
  const auto probe = api::parse_template_probe(body);
  if (!probe && (probe.error().code != osb::Code::InvalidRequest || probe.error().message.empty())) std::abort();
  if (const auto policy = api::decode_idle_policy(body)) {
    if (api::decode_idle_policy(api::encode_idle_policy(*policy)) != policy) std::abort();
  }
  return 0;
}
