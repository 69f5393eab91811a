// Queries of lifecycle requests, and an entrypoint that is one command line. Every refusal has a code and a message.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/lifecycle_diagnostics.h"
#include "api/lifecycle_endpoint.h"
#include "api/lifecycle_entrypoint.h"
#include "api/lifecycle_query.h"
#include "api/lifecycle_template.h"
#include "http/url.h"

namespace {

namespace api = osb::api;

template <typename T>
void check(const osb::Result<T>& got) {
  if (got) return;
  const osb::Code code = got.error().code;
  if (code != osb::Code::Unprocessable && code != osb::Code::InvalidRequest) std::abort();
  if (got.error().reason.empty() || got.error().message.empty()) std::abort();
}

void check_paging(const api::Paging& paging) {
  if (paging.page < 1 || paging.page_size < 1 || paging.page_size > 200) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto query = osb::http::Query::parse(text);
  const std::vector<std::pair<std::string, std::string>> pairs(query.begin(), query.end());
  const auto sandboxes = api::decode_sandbox_query(pairs);
  check(sandboxes);
  if (sandboxes) check_paging(sandboxes->paging);
  const auto templates = api::decode_template_query(pairs);
  check(templates);
  if (templates) check_paging(templates->paging);
  check(api::decode_snapshot_query(pairs));
  check(api::decode_logs_query(pairs));
  check(api::decode_log_stream_query(pairs));
  check(api::decode_events_query(pairs));
  check(api::decode_summary_query(pairs));
  const std::string_view port = query.get("port");
  for (const bool signed_routes : {false, true}) {
    const auto endpoint = api::decode_endpoint_query(port, pairs, "NATIVE", signed_routes);
    check(endpoint);
    if (endpoint && endpoint->port == 0) std::abort();
  }
  (void)api::decode_wait(pairs, text);
  const auto words = api::entrypoint_words({std::string(text)});
  if (words && words->empty()) std::abort();
  if (!words && words.error().message.empty()) std::abort();
  return 0;
}
