#include "sandboxd/daemon/fault.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <unistd.h>

#include "base/log.h"
#include "base/parse_number.h"

namespace osb::sandboxd {

std::function<void(std::string_view step)> fault_from_environment() {
  const char* wanted = std::getenv("SANDBOXD_FAULT");
  if (wanted == nullptr || *wanted == '\0') return {};
  std::string step = wanted;
  int times = 1;
  if (const std::size_t colon = step.rfind(':'); colon != std::string::npos) {
    times = parse_number<int>(std::string_view(step).substr(colon + 1)).value_or(1);
    step.resize(colon);
  }
  log_warn("will end at a step, for a test", {{"step", step}, {"time", times}});
  // Steps are done on several threads.
  auto left = std::make_shared<std::atomic<int>>(times);
  return [step = std::move(step), left = std::move(left)](std::string_view done) {
    if (done == step && --*left == 0) ::_exit(137);
  };
}

}  // namespace osb::sandboxd
