#include "kubernetes/cluster_config.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/base64.h"
#include "http/url.h"
#include "kubernetes/object.h"
#include "kubernetes/text_file.h"
#include "yaml/reader.h"

namespace osb::kubernetes {
namespace {

constexpr std::size_t kMaxConfig = 4 << 20;

Failure wrong(std::string message) { return fail(Code::InvalidRequest, std::move(message)); }

// The entry of that name in a list of {name, ENTRY: {..}}; nullptr when there is none.
const json::object* named(const json::object& config, std::string_view list, std::string_view entry,
                          std::string_view name) {
  const json::value* all = config.if_contains(list);
  if (all == nullptr || !all->is_array()) return nullptr;
  for (const json::value& each : all->get_array()) {
    const json::object* item = each.if_object();
    if (item == nullptr || text(*item, {"name"}) != name) continue;
    const json::value* inner = item->if_contains(entry);
    return inner == nullptr ? nullptr : inner->if_object();
  }
  return nullptr;
}

class Fields {
 public:
  Fields(const json::object& object, std::filesystem::path directory, std::string what)
      : object_(object), directory_(std::move(directory)), what_(std::move(what)) {}

  bool has(std::string_view name) const {
    const json::value* found = object_.if_contains(name);
    if (found == nullptr || found->is_null()) return false;
    return !found->is_string() || !found->get_string().empty();
  }

  bool flag(std::string_view name) const {
    const json::value* found = object_.if_contains(name);
    return found != nullptr && found->is_bool() && found->get_bool();
  }

  // `data` holds base64, `file` a path. As in kubectl the data wins.
  Result<Material> material(std::string_view data, std::string_view file) const {
    Material out;
    if (has(data)) {
      const auto bytes = decode_base64(text(object_, {data}));
      // The value may be a key: it is not repeated.
      if (!bytes || bytes->empty()) return wrong(what_ + ": " + std::string(data) + " is not base64");
      out.inline_text = *bytes;
    } else if (has(file)) {
      out.file = directory_ / std::string(text(object_, {file}));
    }
    return out;
  }

  const std::string& what() const { return what_; }

 private:
  const json::object& object_;
  std::filesystem::path directory_;
  std::string what_;
};

Result<void> read_cluster(const json::object& cluster, const Fields& fields, ClusterConfig& out) {
  out.server = text(cluster, {"server"});
  const auto url = http::Url::parse(out.server);
  if (!url || (url->scheme != "https" && url->scheme != "http")) {
    return wrong(fields.what() + ": server is no http or https address");
  }
  if (fields.has("proxy-url")) return wrong(fields.what() + ": proxy-url is not supported; connect directly");
  out.tls_name = text(cluster, {"tls-server-name"});
  out.insecure = fields.flag("insecure-skip-tls-verify");
  auto ca = fields.material("certificate-authority-data", "certificate-authority");
  if (!ca) return Failure(ca.error());
  out.ca = std::move(*ca);
  if (out.insecure && !out.ca.empty()) {
    return wrong(fields.what() + ": insecure-skip-tls-verify and a certificate authority exclude each other");
  }
  return {};
}

Result<void> read_user(const json::object& user, const Fields& fields, ClusterConfig& out) {
  for (const char* other : {"exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid"}) {
    if (fields.has(other)) {
      return wrong(fields.what() + ": '" + other +
                   "' is not supported; use a token, a tokenFile or a client certificate");
    }
  }
  // kubectl prefers the file as well: it can be exchanged.
  if (fields.has("tokenFile")) {
    auto token = fields.material("", "tokenFile");
    if (!token) return Failure(token.error());
    out.token = std::move(*token);
  } else {
    out.token.inline_text = text(user, {"token"});
  }
  auto certificate = fields.material("client-certificate-data", "client-certificate");
  if (!certificate) return Failure(certificate.error());
  auto key = fields.material("client-key-data", "client-key");
  if (!key) return Failure(key.error());
  if (certificate->empty() != key->empty()) {
    return wrong(fields.what() + ": client-certificate and client-key must be given together");
  }
  out.certificate = std::move(*certificate);
  out.key = std::move(*key);
  return {};
}

}  // namespace

Result<ClusterConfig> parse_kubeconfig(const std::string& content, const std::filesystem::path& directory,
                                       std::string_view context) {
  const auto parsed = yaml::parse(content);
  if (!parsed) return with_context("kubeconfig", parsed.error());
  const json::object* config = parsed->if_object();
  if (config == nullptr) return wrong("kubeconfig: not a mapping");
  const std::string name(context.empty() ? text(*config, {"current-context"}) : context);
  if (name.empty()) return wrong("kubeconfig: no current-context; name a context");
  const json::object* chosen = named(*config, "contexts", "context", name);
  if (chosen == nullptr) return wrong("kubeconfig: no context '" + name + "'");

  ClusterConfig out;
  out.origin = "context '" + name + "'";
  if (const auto ns = text(*chosen, {"namespace"}); !ns.empty()) out.ns = ns;
  const std::string cluster_name(text(*chosen, {"cluster"}));
  const json::object* cluster = named(*config, "clusters", "cluster", cluster_name);
  if (cluster == nullptr) return wrong("kubeconfig: context '" + name + "' names no cluster that is there");
  const Fields cluster_fields(*cluster, directory, "kubeconfig: cluster '" + cluster_name + "'");
  if (auto read = read_cluster(*cluster, cluster_fields, out); !read) return Failure(read.error());
  const std::string user_name(text(*chosen, {"user"}));
  if (user_name.empty()) return out;
  const json::object* user = named(*config, "users", "user", user_name);
  if (user == nullptr) return wrong("kubeconfig: context '" + name + "' names no user that is there");
  const Fields user_fields(*user, directory, "kubeconfig: user '" + user_name + "'");
  if (auto read = read_user(*user, user_fields, out); !read) return Failure(read.error());
  return out;
}

Result<ClusterConfig> load_kubeconfig(const std::filesystem::path& file, std::string_view context) {
  const auto content = read_text_file(file, kMaxConfig);
  if (!content) return with_context("kubeconfig", content.error());
  auto config = parse_kubeconfig(*content, file.parent_path(), context);
  if (!config) return with_context(file.string(), config.error());
  config->origin = file.string() + ", " + config->origin;
  return config;
}

Result<ClusterConfig> in_cluster_config(const Environment& environment, const std::filesystem::path& directory) {
  const auto host = environment("KUBERNETES_SERVICE_HOST");
  const auto port = environment("KUBERNETES_SERVICE_PORT");
  if (!host || !port || host->empty() || port->empty()) {
    return fail(Code::Unavailable,
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod; name a kubeconfig");
  }
  ClusterConfig out;
  out.server = "https://" + (host->contains(':') ? "[" + *host + "]" : *host) + ":" + *port;
  if (auto url = http::Url::parse(out.server); !url) return with_context("KUBERNETES_SERVICE_HOST", url.error());
  out.token.file = directory / "token";
  out.ca.file = directory / "ca.crt";
  out.origin = "the pod's service account";
  const auto token = read_text_file(out.token.file, kMaxConfig);
  if (!token) return with_context(out.origin, token.error());
  if (const auto ns = read_text_file(directory / "namespace", kMaxConfig); ns && !ns->empty()) out.ns = *ns;
  return out;
}

}  // namespace osb::kubernetes
