#include "execd/init/java_trust.h"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/base64.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "execd/init/java_keystore.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOptions = "JAVA_TOOL_OPTIONS", kProperty = "-Djavax.net.ssl.trustStore=";
// Lists that the Javas of a distribution share, also those that are installed later.
constexpr std::array kShared = {"/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts"};
constexpr std::array kParents = {"/usr/lib/jvm", "/usr/java", "/usr/local", "/opt/java", "/opt"};
constexpr std::array kInside = {"/lib/security/cacerts", "/jre/lib/security/cacerts"};

std::string value_of(const Environment& env, std::string_view name) {
  const auto found = env.find(name);
  return found == env.end() ? "" : found->second;
}

// The certificates of a text, in DER.
std::vector<std::string> certificates_in(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----", kEnd = "-----END CERTIFICATE-----";
  std::vector<std::string> out;
  while (true) {
    const auto begin = pem.find(kBegin);
    if (begin == std::string_view::npos) return out;
    pem.remove_prefix(begin + kBegin.size());
    const auto end = pem.find(kEnd);
    if (end == std::string_view::npos) return out;
    if (auto der = decode_base64(pem.substr(0, end)); der && !der->empty()) out.push_back(std::move(*der));
    pem.remove_prefix(end);
  }
}

std::set<std::string> find_lists(const Environment& env, const std::string& root) {
  std::set<std::string> out;
  std::error_code error;
  const auto add = [&](const std::string& path) {
    const fs::path real = fs::canonical(path, error);
    if (!error && fs::is_regular_file(real, error)) out.insert(real.string());
  };
  const auto add_home = [&](const std::string& home) {
    for (const char* inside : kInside) add(home + inside);
  };
  for (const char* path : kShared) add(root + path);
  for (const char* parent : kParents) {
    for (const auto& entry : fs::directory_iterator(root + parent, error)) add_home(entry.path().string());
  }
  if (const std::string home = value_of(env, "JAVA_HOME"); !home.empty()) add_home(root + home);
  std::string_view path;
  const std::string all = value_of(env, "PATH");
  for (std::string_view rest = all; !rest.empty(); rest.remove_prefix(std::min(rest.size(), path.size() + 1))) {
    path = rest.substr(0, rest.find(':'));
    const fs::path java = fs::canonical(root + std::string(path) + "/java", error);
    if (!error) add_home(java.parent_path().parent_path().string());
  }
  return out;
}

// In one step: no Java reads half of it.
bool replace(const std::string& path, std::string_view bytes) {
  struct stat old{};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 0777 : 0644;
  const std::string next = path + ".opensandbox";
  const UniqueFd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  const bool replaced = file.get() >= 0 && sys::write_all(file.get(), bytes, next).has_value() &&
                        ::rename(next.c_str(), path.c_str()) == 0;
  if (!replaced) ::unlink(next.c_str());
  return replaced;
}

}  // namespace

Environment trust_in_java(std::string_view certificate, std::string_view list, const Environment& env,
                          const std::string& root, const std::string& directory) {
  const std::vector<std::string> ours = certificates_in(certificate);
  if (ours.empty()) return {};
  bool missed = false;
  std::string own;  // a list for Javas whose own could not be changed
  for (const std::string& path : find_lists(env, root)) {
    const auto bytes = sys::read_text(path);
    const auto added = bytes ? add_to_keystore(*bytes, ours.front()) : std::nullopt;
    if (added && (*added == *bytes || replace(path, *added))) continue;
    missed = true;
    if (added && own.empty()) own = *added;
  }
  if (!missed) return {};
  const std::string options = value_of(env, kOptions);
  if (options.contains(kProperty)) return {};  // the user's own list
  if (own.empty()) own = make_keystore(certificates_in(list));
  const std::string store = directory + "/java-cacerts";
  if (!replace(store, own)) {
    log_warn("Java does not trust the certificate of the credential proxy", {{"file", store}});
    return {};
  }
  return {{std::string(kOptions), (options.empty() ? "" : options + " ") + std::string(kProperty) + store}};
}

}  // namespace osb::execd
