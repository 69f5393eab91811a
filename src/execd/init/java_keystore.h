#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osb::execd {

// Java's list of certificate authorities, a file called cacerts: JKS up to Java 17, PKCS #12 without a password since.
// Both are read by every Java, whatever the file is called.

// The store with one more trusted certificate (DER); unchanged if it has that one already. Nothing: the bytes are no
// such store, or it has another password than Java's usual one ("changeit"), so that it cannot be sealed again.
std::optional<std::string> add_to_keystore(std::string_view store, std::string_view certificate);

// A new store, in JKS.
std::string make_keystore(const std::vector<std::string>& certificates);

}  // namespace osb::execd
