#include "image/reference.h"

#include <algorithm>
#include <ranges>

#include "base/text.h"

namespace osb::image {

namespace {

constexpr std::string_view kDefaultRegistry = "docker.io";
constexpr std::string_view kOfficial = "library/";
constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxTag = 128;
constexpr std::size_t kMaxText = 1024;

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || is_digit(c); }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_alnum(char c) { return is_lower(c) || is_upper(c); }

bool all_of(std::string_view text, bool (*is)(char)) { return std::ranges::all_of(text, is); }

// Lower-case words, with one '.', one or two '_', or any number of '-' between them.
bool is_path_component(std::string_view text) {
  if (text.empty() || !is_lower(text.front()) || !is_lower(text.back())) return false;
  for (std::size_t i = 0; i < text.size();) {
    if (is_lower(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (!is_lower(text[end])) ++end;  // the last character is one
    const std::string_view separator = text.substr(i, end - i);
    const bool dashes = separator.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && separator != "." && separator != "_" && separator != "__") return false;
    i = end;
  }
  return true;
}

bool is_path(std::string_view text) {
  for (const auto part : std::views::split(text, '/')) {
    if (!is_path_component(std::string_view(part.begin(), part.end()))) return false;
  }
  return !text.empty();
}

bool is_host_label(std::string_view text) {
  return !text.empty() && is_alnum(text.front()) && is_alnum(text.back()) &&
         all_of(text, [](char c) { return is_alnum(c) || c == '-'; });
}

bool is_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || !all_of(text, is_digit)) return false;
  int port = 0;
  for (const char c : text) port = port * 10 + (c - '0');
  return port > 0 && port <= 65535;
}

bool is_registry(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || end == 1) return false;
    const auto is_address = [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':';
    };
    if (!all_of(text.substr(1, end - 1), is_address)) return false;
    text.remove_prefix(end + 1);
    return text.empty() || (text.front() == ':' && is_port(text.substr(1)));
  }
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    if (!is_port(text.substr(colon + 1))) return false;
    text = text.substr(0, colon);
  }
  for (const auto part : std::views::split(text, '.')) {
    if (!is_host_label(std::string_view(part.begin(), part.end()))) return false;
  }
  return !text.empty();
}

bool is_tag(std::string_view text) {
  return !text.empty() && text.size() <= kMaxTag && (is_alnum(text.front()) || text.front() == '_') &&
         all_of(text, [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
}

bool names_a_registry(std::string_view first) {
  return first.find_first_of(".:[") != std::string_view::npos || first == "localhost" ||
         std::ranges::any_of(first, is_upper);
}

}  // namespace

Result<Reference> Reference::parse(std::string_view text) {
  if (text.empty()) return fail(Code::InvalidRequest, "image: the name is empty");
  if (text.size() > kMaxText) return fail(Code::InvalidRequest, "image: the name is too long");
  const auto bad = [text](std::string_view why) {
    return fail(Code::InvalidRequest, "image '" + std::string(text) + "': " + std::string(why));
  };
  if (!all_of(text, [](char c) { return c > ' ' && c < 127; })) {
    return fail(Code::InvalidRequest, "image: the name holds a blank or a character that is not ASCII");
  }
  Reference out;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    auto digest = Digest::parse(rest.substr(at + 1));
    if (!digest) return with_context("image '" + std::string(text) + "'", digest.error());
    out.digest = *digest;
    rest = rest.substr(0, at);
  }
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos && names_a_registry(rest.substr(0, slash))) {
    out.registry = rest.substr(0, slash);
    rest.remove_prefix(slash + 1);
    if (!is_registry(out.registry)) return bad("'" + out.registry + "' is no registry's host and port");
    if (out.registry == "index.docker.io") out.registry = kDefaultRegistry;
  } else {
    out.registry = kDefaultRegistry;
    if (slash == std::string_view::npos && Digest::from_hex(rest)) {
      return bad("64 hexadecimal digits are an image's id, not a name");
    }
  }
  if (const std::size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    out.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_tag(out.tag)) return bad("'" + out.tag + "' is no tag");
  }
  if (std::ranges::any_of(rest, is_upper)) return bad("the repository must be lower case");
  if (!is_path(rest)) return bad("'" + std::string(rest) + "' is no repository");
  const bool official = out.registry == kDefaultRegistry && rest.find('/') == std::string_view::npos;
  out.repository = official ? std::string(kOfficial) + std::string(rest) : std::string(rest);
  if (out.registry.size() + 1 + out.repository.size() > kMaxName) return bad("longer than 255 characters");
  if (out.tag.empty() && !out.digest) out.tag = "latest";
  return out;
}

std::string Reference::to_string() const {
  std::string out = registry + "/" + repository;
  if (!tag.empty()) out += ":" + tag;
  if (digest) out += "@" + digest->to_string();
  return out;
}

std::string Reference::familiar() const {
  std::string out = repository;
  const std::string_view first = std::string_view(repository).substr(0, repository.find('/'));
  if (registry != kDefaultRegistry || names_a_registry(first)) {
    out = registry + "/" + repository;
  } else if (repository.starts_with(kOfficial) && repository.find('/', kOfficial.size()) == std::string::npos) {
    out = repository.substr(kOfficial.size());
    // A short name that reads as an id keeps its long form.
    if (Digest::from_hex(out)) out = repository;
  }
  if (!tag.empty() && (tag != "latest" || digest)) out += ":" + tag;
  if (digest) out += "@" + digest->to_string();
  return out;
}

}  // namespace osb::image
