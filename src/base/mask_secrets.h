#pragma once

#include <string>
#include <string_view>

namespace osb {

// A command line as it may be logged: the values of what looks like a credential are replaced by ***. Covers
// NAME=value, --name value, name: value and "name":"value" where the name contains a word like password, token, secret,
// key or credential; Authorization and cookie headers; "Bearer ..."; user:password@ in URLs; and curl's -u
// user:password. A guess on the careful side: it rather hides too much. Takes time linear in the length of the text.
std::string mask_secrets(std::string_view text);

}  // namespace osb
