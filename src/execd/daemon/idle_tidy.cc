#include "execd/daemon/idle_tidy.h"

#include <malloc.h>

#include "execd/daemon/program_pages.h"

namespace osb::execd {

void IdleTidy::wait() {
  waiting_ = true;
  active_ = false;
  timer_.expires_after(period_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (active_) return wait();
    waiting_ = false;
    tidy_();
  });
}

void give_memory_back() {
  ::malloc_trim(0);
  forget_program_pages();
}

}  // namespace osb::execd
