#include "image/registry_auth.h"

#include <algorithm>

#include "base/base64.h"

namespace osb::image {

namespace {

// name=value or name="value", separated by commas. Stops at the first thing that is neither.
void read_parameters(std::string_view text, Challenge& out) {
  while (!text.empty()) {
    const std::size_t start = text.find_first_not_of(", \t");
    if (start == std::string_view::npos) return;
    text.remove_prefix(start);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view name = http::trim_ows(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    std::string value;
    if (text.starts_with('"')) {
      std::size_t i = 1;
      for (; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\' && i + 1 < text.size()) ++i;
        value += text[i];
      }
      if (i >= text.size()) return;
      text.remove_prefix(i + 1);
    } else {
      const std::size_t end = std::min(text.find(','), text.size());
      value = http::trim_ows(text.substr(0, end));
      text.remove_prefix(end);
    }
    if (http::iequals(name, "realm")) out.realm = value;
    if (http::iequals(name, "service")) out.service = value;
  }
}

}  // namespace

Challenge parse_challenge(const http::Headers& headers) {
  Challenge out;
  for (const auto& [name, value] : headers) {
    if (!http::iequals(name, "WWW-Authenticate")) continue;
    const std::string_view text = http::trim_ows(value);
    const std::string_view scheme = text.substr(0, text.find(' '));
    Challenge found;
    if (http::iequals(scheme, "Bearer")) found.scheme = Challenge::Scheme::Bearer;
    if (http::iequals(scheme, "Basic")) found.scheme = Challenge::Scheme::Basic;
    if (found.scheme <= out.scheme) continue;
    read_parameters(text.substr(scheme.size()), found);
    out = std::move(found);
  }
  return out;
}

std::string basic_authorization(std::string_view username, std::string_view password) {
  return "Basic " + encode_base64(std::string(username) + ":" + std::string(password));
}

}  // namespace osb::image
