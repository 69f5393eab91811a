#include "intercept/rules.h"

#include <cstring>

namespace osb::intercept {

Verdict::~Verdict() {
  headers.wipe();
  if (target) ::explicit_bzero(target->data(), target->size());
}

}  // namespace osb::intercept
