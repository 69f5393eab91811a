#pragma once

#include <string>

namespace osb::tls {

// The certificates in PEM that this machine trusts, as one text; empty if none are found. For a process that cannot
// read them itself.
std::string system_authorities();

}  // namespace osb::tls
