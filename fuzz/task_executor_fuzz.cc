// The requests of a task-executor, and the record of a task that it reads again.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "api/task_executor.h"
#include "taskexecutor/task_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace api = osb::api;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (const auto record = osb::taskexecutor::decode_record(text)) {
    if (!osb::taskexecutor::decode_record(osb::taskexecutor::encode_record(*record))) std::abort();
  }
  const auto value = api::parse_json(text, {.ignore_trailing = true});
  if (!value) return 0;
  (void)api::parse_task(*value);
  const auto tasks = api::parse_tasks(*value);
  if (!tasks) return 0;
  // Our own answers can be read again.
  const auto again = api::parse_tasks(api::to_json(*tasks));
  if (!again || again->size() != tasks->size()) std::abort();
  return 0;
}
