#include "image/registry_credentials.h"

#include "api/json.h"
#include "base/base64.h"

namespace osb::image {
namespace {

namespace json = api::json;

// The key that `docker login` uses for its own registry.
constexpr std::string_view kDockerHub = "https://index.docker.io/v1/";

Failure damaged(std::string_view registry, std::string_view why) {
  return fail(Code::InvalidRequest, "credentials of registry " + std::string(registry) + ": " + std::string(why) +
                                        "; run docker login again");
}

std::string text_at(const json::object& object, std::string_view key) {
  const json::value* found = object.if_contains(key);
  const json::string* text = found != nullptr ? found->if_string() : nullptr;
  return text != nullptr ? std::string(text->data(), text->size()) : "";
}

}  // namespace

Result<std::optional<Credentials>> credentials_for(std::string_view registry, std::string_view text) {
  const auto value = api::parse_json(text);
  if (!value || !value->is_object()) return damaged(registry, "the file is no JSON object");
  const json::value* auths = value->get_object().if_contains("auths");
  if (auths == nullptr) return std::nullopt;
  if (!auths->is_object()) return damaged(registry, "\"auths\" is no object");
  const json::value* found = auths->get_object().if_contains(registry);
  if (found == nullptr && registry == "docker.io") found = auths->get_object().if_contains(kDockerHub);
  if (found == nullptr) return std::nullopt;
  if (!found->is_object()) return damaged(registry, "its entry is no object");
  const json::object& entry = found->get_object();
  Credentials out{text_at(entry, "username"), text_at(entry, "password")};
  if (const std::string packed = text_at(entry, "auth"); !packed.empty()) {
    const auto plain = decode_base64(packed);
    const std::size_t colon = plain ? plain->find(':') : std::string::npos;
    if (colon == std::string::npos) return damaged(registry, "\"auth\" is not base64 of user:password");
    out = {plain->substr(0, colon), plain->substr(colon + 1)};
  }
  if (out.username.empty() || out.password.empty()) {
    return damaged(registry, "no user or no password (a credential helper is not asked)");
  }
  return out;
}

}  // namespace osb::image
