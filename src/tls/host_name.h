#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osb::tls {

// A DNS name as certificates and SNI carry it: labels of letters, digits, '-' and '_', at most 63 characters each and
// 253 in all, no dot at the end, no IP address. Returned in lower case; nothing for any other text.
std::optional<std::string> parse_dns_name(std::string_view text);

}  // namespace osb::tls
