#pragma once

#include <string>
#include <string_view>

#include "execd/path/path.h"

namespace osb::execd {

// Makes Java trust a certificate (PEM): each list of the image's Javas gets it, in its place. So it holds however a
// program is started, a user's own JAVA_TOOL_OPTIONS stay as they are, and Java does not print the line with which it
// greets that variable, which breaks programs that read the output of `java -version`.
//
// A list that this user cannot write, or that has a password of its own, is copied to `directory` with the certificate
// added (if its form is unknown: `list`, the certificates of the image in PEM, takes its place). Only then the variable
// is returned, behind the user's own options.
Environment trust_in_java(std::string_view certificate, std::string_view list, const Environment& env,
                          const std::string& root, const std::string& directory);

}  // namespace osb::execd
