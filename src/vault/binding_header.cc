#include <algorithm>
#include <array>

#include "policy/text.h"
#include "vault/binding.h"

namespace osb::vault {
namespace {

constexpr std::array<std::string_view, 14> kReserved = {"host",
                                                        "content-length",
                                                        "content-type",
                                                        "transfer-encoding",
                                                        "connection",
                                                        "upgrade",
                                                        "te",
                                                        "trailer",
                                                        "proxy-authorization",
                                                        "proxy-authenticate",
                                                        "forwarded",
                                                        "x-forwarded-for",
                                                        "x-forwarded-host",
                                                        "x-forwarded-proto"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_token(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || std::string_view("!#$%&'*+-.^_`|~").contains(c);
}

}  // namespace

bool is_reserved_header(std::string_view name) {
  return std::ranges::find(kReserved, policy::lower(name)) != kReserved.end();
}

Result<std::string> parse_header_name(std::string_view text) {
  std::string name = policy::lower(policy::trimmed(text));
  if (name.empty()) return fail(Code::InvalidRequest, "a header name is required");
  if (!std::ranges::all_of(name, is_token)) {
    return fail(Code::InvalidRequest, "a header name has only letters, digits and !#$%&'*+-.^_`|~");
  }
  if (is_reserved_header(name)) {
    return fail(Code::InvalidRequest,
                "reserved credential header name \"" + name + "\": it frames or routes a request");
  }
  bool first = true;
  for (char& c : name) {
    if (first && c >= 'a' && c <= 'z') c = static_cast<char>(c - ('a' - 'A'));
    first = c == '-';
  }
  return name;
}

}  // namespace osb::vault
