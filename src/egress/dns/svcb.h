#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osb::egress {

// The data of an SVCB or HTTPS record without encrypted client hello keys and address hints: keys would hide the name
// that a connection is for, hints would name addresses that no question opened. Clients then ask for A and AAAA.
// Nothing if the data is broken, or if its owner demands one of those parameters: the record has to go.
std::optional<std::string> without_hints(std::string_view data);

}  // namespace osb::egress
