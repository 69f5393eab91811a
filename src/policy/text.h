#pragma once

#include "base/text.h"

namespace osb::policy {

using osb::lower;
using osb::trimmed;

}  // namespace osb::policy
