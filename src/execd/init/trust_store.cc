#include "execd/init/trust_store.h"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "api/egress_environment.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "execd/init/java_trust.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::execd {
namespace {

namespace fs = std::filesystem;

// Lists of distributions; some are links to each other.
constexpr std::array kBundles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // the same
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/ssl/cert.pem",                                  // Alpine
};
// Where the distributions' own programs find it when they make their list anew.
constexpr std::array<std::pair<const char*, const char*>, 2> kAnchors = {{
    {"/usr/local/share/ca-certificates", "opensandbox-mitmproxy-ca.crt"},
    {"/etc/pki/ca-trust/source/anchors", "opensandbox-mitmproxy-ca.pem"},
}};
constexpr std::array kPythons = {"/usr/local/lib", "/usr/lib"};

bool write_file(const std::string& path, int flags, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0644));
  return file.get() >= 0 && sys::write_all(file.get(), text, path).has_value();
}

// Images of Python may have no list but the one of `requests`.
std::string python_bundle(const std::string& root) {
  for (const char* parent : kPythons) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root + parent, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"/site-packages", "/dist-packages"}) {
        auto text = sys::read_text(entry.path().string() + packages + "/certifi/cacert.pem");
        if (text && !text->empty()) return std::move(*text);
      }
    }
  }
  return {};
}

std::string bundle_of(const Environment& env, const std::string& root) {
  if (const auto named = env.find("SSL_CERT_FILE"); named != env.end()) {
    if (auto text = sys::read_text(named->second); text && !text->empty()) return std::move(*text);
  }
  for (const char* bundle : kBundles) {
    if (auto text = sys::read_text(root + bundle); text && !text->empty()) return std::move(*text);
  }
  return python_bundle(root);
}

std::string joined(std::string list, std::string_view certificate) {
  if (list.contains(certificate)) return list;
  if (!list.empty() && !list.ends_with('\n')) list += '\n';
  return list.append(certificate);
}

void add_to_lists(const std::string& root, std::string_view certificate) {
  for (const char* bundle : kBundles) {
    const auto text = sys::read_text(root + bundle);
    if (!text || text->contains(certificate)) continue;
    write_file(root + bundle, O_APPEND,
               text->ends_with('\n') ? std::string(certificate) : "\n" + std::string(certificate));
  }
  for (const auto& [directory, name] : kAnchors) {
    if (::access((root + directory).c_str(), W_OK) == 0)
      write_file(root + directory + "/" + name, O_CREAT | O_TRUNC | O_NOFOLLOW, certificate);
  }
}

}  // namespace

Environment trust_authority(std::string_view certificate, const Environment& env, const TrustStore& store) {
  const std::string list = joined(bundle_of(env, store.root), certificate);
  add_to_lists(store.root, certificate);
  for (const std::string& each : store.directories) {
    std::error_code error;
    fs::create_directories(store.root + each, error);
    const std::string own = store.root + each + "/mitmproxy-ca-cert.pem";
    const std::string merged = store.root + each + "/merged-ca-certificates.pem";
    constexpr int kFlags = O_CREAT | O_TRUNC | O_NOFOLLOW;
    if (!write_file(own, kFlags, certificate) || !write_file(merged, kFlags, list)) continue;
    Environment out = trust_in_java(certificate, list, env, store.root, store.root + each);
    out.merge(Environment{{"NODE_EXTRA_CA_CERTS", own},
                          {"SSL_CERT_FILE", merged},
                          {"REQUESTS_CA_BUNDLE", merged},
                          {"CURL_CA_BUNDLE", merged},
                          {"GIT_SSL_CAINFO", merged},
                          {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", merged}});
    return out;
  }
  log_warn("no directory can be written for the certificate that programs have to trust");
  return {};
}

void trust_given_authority(Environment& env) {
  const auto given = env.find(api::kAuthorityVariable);
  if (given == env.end()) return;
  const std::string certificate = std::move(given->second);
  env.erase(given);
  if (certificate.empty()) return;
  for (auto& [name, value] : trust_authority(certificate, env)) env.insert_or_assign(name, value);
}

}  // namespace osb::execd
