#pragma once

#include <memory>
#include <string>

#include "http/transport.h"

namespace osb::http {

// A transport whose first bytes were read already, to find out what they are: reading gives `first` once more, then
// goes on with `inner`.
std::unique_ptr<Transport> make_prefixed_transport(std::string first, std::unique_ptr<Transport> inner);

}  // namespace osb::http
