#include "runtime/docker/registry_login.h"

#include <fstream>
#include <sstream>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "config/sections.h"
#include "image/reference.h"
#include "runtime/docker/engine_json.h"

namespace osb::runtime {
namespace {

namespace json = boost::json;

std::string base64_url(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

std::string encode_login(const std::string& username, const std::string& password) {
  return base64_url(json::serialize(json::object{{"username", username}, {"password", password}}));
}

}  // namespace

Result<std::string> registry_auth(const std::string& image, const std::optional<api::ImageLogin>& login,
                                  const std::filesystem::path& credentials) {
  if (login) return encode_login(login->username, login->password);
  const auto reference = image::Reference::parse(image);
  std::ifstream file(credentials);
  if (!reference || !file) return "";
  std::stringstream text;
  text << file.rdbuf();
  const auto config = api::parse_json(text.str());
  if (!config) return with_context(credentials.string(), config.error());
  std::vector<std::string> names = {reference->registry, "https://" + reference->registry,
                                    "http://" + reference->registry};
  if (reference->registry == "docker.io") names.push_back("https://index.docker.io/v1/");
  for (const std::string& name : names) {
    const json::value* entry = engine::find(*config, {"auths", name});
    if (entry == nullptr) continue;
    if (const auto token = engine::text(*entry, {"identitytoken"}); !token.empty()) {
      return base64_url(json::serialize(json::object{{"identitytoken", token}, {"serveraddress", name}}));
    }
    const auto pair = config::decode_base64(engine::text(*entry, {"auth"}));
    const std::size_t colon = pair ? pair->find(':') : std::string::npos;
    if (colon != std::string::npos) return encode_login(pair->substr(0, colon), pair->substr(colon + 1));
  }
  return "";
}

}  // namespace osb::runtime
