// The server's keys: the sections that one host needs. cluster_settings.cc has the others.

#include <algorithm>

#include "base/ip_address.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "config/sections.h"
#include "config/settings.h"

namespace osb::config {
namespace {

using enum Reload;

void to_upper(std::string& text) { text = upper(text); }

std::string_view level_fault(std::string_view level) { return level.size() < 3 ? "expected a level such as INFO" : ""; }

// Every User-Agent begins with an empty string.
std::string_view client_fault(std::string_view begin) {
  return begin.empty() ? "expected beginnings of User-Agent, not empty strings" : "";
}

// A name, or an IPv6 address, which has several colons.
std::string_view host_fault(std::string_view host) {
  const bool port = std::ranges::count(host, ':') == 1;
  return host.empty() || port || host.find_first_of("/@[] ") != std::string_view::npos
             ? "expected host names without scheme and port, such as \"box.example.com\" or \"*.example.com\""
             : "";
}

std::string_view domain_fault(std::string_view domain) {
  const bool name = std::ranges::all_of(
      domain, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; });
  return name && !domain.starts_with('.') && !domain.ends_with('.') ? "" : "expected a domain in small letters";
}

std::string_view origin_fault(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  const bool web = origin.starts_with("http://") || origin.starts_with("https://");
  if (origin == "*" || (web && origin.find_first_of("/*@ ", scheme + 3) == std::string_view::npos)) return "";
  return "expected origins such as \"https://console.example.com\", without a path, or \"*\"";
}

std::string_view url_fault(std::string_view url) {
  const bool web = url.starts_with("http://") || url.starts_with("https://");
  return url.empty() || web ? "" : "expected an http or https URL";
}

std::string_view resolver_fault(std::string_view address) {
  if (parse_ip_address(address)) return "";
  const std::size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const bool port = colon != std::string_view::npos && parse_number<std::uint16_t>(address.substr(colon + 1));
  return port && parse_ip_address(host) ? "" : "expected addresses such as \"10.0.0.53\" or \"10.0.0.53:5353\"";
}

std::string_view pin_fault(std::string_view pin) {
  const std::size_t equals = pin.find('=');
  const bool both = equals != std::string_view::npos && equals != 0 && parse_ip_address(pin.substr(equals + 1));
  return both ? "" : "expected pins such as \"api.example.com=10.0.0.7\"";
}

std::string_view ipv4_fault(std::string_view address) {
  int dots = 0, value = -1;
  for (const char c : address) {
    if (c == '.' && value >= 0) {
      ++dots;
      value = -1;
    } else if (c >= '0' && c <= '9') {
      value = (value < 0 ? 0 : value) * 10 + (c - '0');
    } else {
      value = 256;
    }
    if (value > 255) break;
  }
  const bool good = address.empty() || (dots == 3 && value >= 0 && value <= 255);
  return good ? "" : "expected an IPv4 address";
}

// "host:container[:mode]"; the host's side may be the name of a volume.
std::string_view network_fault(std::string_view network) {
  const auto prefix = parse_ip_prefix(network);
  if (!prefix || prefix->base.v6) return "expected IPv4 networks such as \"10.1.0.0/16\" or \"10.1.2.3/32\"";
  return format_ip_prefix(*prefix) == network ? "" : "has bits beyond its prefix; an address is \"10.1.2.3/32\"";
}

std::string_view bind_fault(std::string_view bind) {
  const std::size_t first = bind.find(':');
  const std::string_view rest = first == std::string_view::npos ? "" : bind.substr(first + 1);
  const std::string_view target = rest.substr(0, rest.find(':'));
  const bool modes = rest.size() == target.size() || rest.substr(target.size() + 1).find(':') == std::string_view::npos;
  const bool good = first > 0 && first != std::string_view::npos && target.starts_with('/') && modes;
  return good ? "" : "expected mounts as \"host:container\" or \"host:container:mode\"";
}

void declare_server(Settings& s, ServerSection& c) {
  s.section("server");
  s.key("host", c.host, Restart,
        "Address to listen on; `0.0.0.0` is every address of this machine. Without a file: `127.0.0.1`.",
        {.empty = false, .written = "\"127.0.0.1\""});
  s.key("port", c.port, Restart, "Port to listen on.");
  s.key(
      "api_key", c.api_key, Live,
      "Clients send it as `OPEN-SANDBOX-API-KEY`. The variable `OPENSANDBOX_SERVER_API_KEY` replaces it. Without a key "
      "the server starts only with `OPENSANDBOX_INSECURE_SERVER=YES`.");
  s.key("eip", c.eip, Live, "Public host, or host/path, in endpoints, if clients reach the server by another name.");
  s.key(
      "headerless_clients", c.headerless_clients, Live,
      "Clients that ignore the headers of an endpoint, by the beginning of their User-Agent: they get execd's token in "
      "the endpoint's path. The Java and Kotlin SDK 1.0.0 needs `[\"OpenSandbox-Kotlin-SDK/\"]`.",
      {.fault = client_fault});
  s.key(
      "sandbox_domain", c.sandbox_domain, Live,
      "Ports of sandboxes have a host name below it, `{id}-{port}.localhost`, where pages have an origin of their own. "
      "Names below `localhost` lead to the browser's own machine without DNS; another domain needs a wildcard entry. "
      "Empty: there are no such names.",
      {.fault = domain_fault});
  s.key(
      "allowed_hosts", c.allowed_hosts, Live,
      "Names under which clients reach a server without a key, besides those of this machine (`localhost`, names below "
      "it, loopback addresses), `host` and `eip`. `*.example.com` covers all names below. With a key every name works.",
      {.fault = host_fault});
  s.key(
      "allowed_origins", c.allowed_origins, Live,
      "Origins of web pages that may use a server with a key, such as `https://console.example.com`; `*` is every one. "
      "Without a key no page of another origin may.",
      {.fault = origin_fault});
  s.key("max_sandbox_timeout_seconds", c.max_sandbox_timeout, Live,
        "Longest timeout that a sandbox may ask for, in seconds.", {.min = 60, .written = "86400"});
  s.key("timeout_keep_alive", c.timeout_keep_alive, Live, "Seconds that an idle connection is kept.");
  s.key("timeout_graceful_shutdown", c.timeout_graceful_shutdown, Live,
        "Seconds that running requests have when the server is told to end.");
  s.key("limit_concurrency", c.limit_concurrency, Live,
        "Open connections. If all are taken, a new one replaces one of a client without the key that has sent half a "
        "request or none; if there is none, the answer is 503, except for `/health`. 0 is no limit.");
  s.key(
      "limit_half_sent_per_address", c.limit_half_sent_per_address, Live,
      "Half-sent requests of one client address (IPv6: network of 64 bits); a further one ends the oldest. A proxy in "
      "front counts as one client, but sends requests whole. 0 is no limit.");
  s.key("backlog", c.backlog, Restart, "Connections that the kernel may queue.", {.min = 1});
  s.key("unknown_keys", c.unknown_keys, Ignored,
        "`refuse`: a key or section of this file that the server does not know stops the start. `warn`: the log names "
        "it.",
        {.choices = {"refuse", "warn"}});
  s.key("thread_pool_size", c.thread_pool_size, Ignored, "Accepted for older files; it changes nothing.", {.min = 1});
  s.old("loop", "Accepted for older files; it changes nothing.", {.choices = {"auto", "uvloop", "asyncio"}});
  s.old("http", "Accepted for older files; it changes nothing.", {.choices = {"auto", "httptools", "h11"}});
}

void declare_log(Settings& s, LogSection& c) {
  s.section("log", true);
  s.key("level", c.level, Live, "`DEBUG`, `INFO`, `WARNING` or `ERROR`.", {.fix = to_upper, .fault = level_fault});
  s.key("format", c.format, Live, "`text` or `json`.", {.choices = {"text", "json"}});
  s.key("file_enabled", c.file_enabled, Live, "Log to rotating files instead of standard output.");
  s.key("file_path", c.file_path, Live, "The log, with `file_enabled`.");
  s.key("access_file_path", c.access_file_path, Live, "One JSON object per request, with `file_enabled`.");
  s.key("audit_file_path", c.audit_file_path, Live, "The audit log. Empty: it goes with the log.");
  s.key("file_max_bytes", c.file_max_bytes, Live, "Size at which a file is rotated.", {.min = 1});
  s.key("file_backup_count", c.file_backup_count, Live, "Rotated files that are kept.");
}

void declare_backends(Settings& s, ServerConfig& c) {
  s.section("runtime", true);
  s.key("type", c.runtime.type, Restart,
        "Maker of the sandboxes: `native` (sandboxd on this host), `docker` or `kubernetes`.");
  s.key("execd_image", c.runtime.execd_image, Restart, "Image that holds execd; required with docker and kubernetes.");
  s.key("execd_run_as_init", c.runtime.execd_run_as_init, Restart,
        "With docker: sandboxes get `EXECD_INIT=1`, with which execd of the image becomes their first process. Our "
        "execd always is.");

  s.section("native", true);
  s.only_for(RuntimeType::Native, c.runtime.type);
  s.key("socket", c.native.socket, Restart, "Socket of sandboxd.", {.absolute = true});
  s.key("request_timeout", c.native.request_timeout, Restart, "Seconds to wait for an answer of sandboxd.");

  s.section("admission", true);
  s.key("max_sandboxes", c.admission.max_sandboxes, Live,
        "Sandboxes that may exist at once; the server answers further creates with 429. -1: as many as the backend's "
        "machine carries (native: `max_sandboxes` of sandboxd; docker: one for each 32 MiB of nine tenths of the "
        "engine's memory). 0: no limit of the server's own.",
        {.min = -1});
  s.key("max_concurrent_creates", c.admission.max_concurrent_creates, Live, "Creates handed to the backend at once.",
        {.min = 1});
  s.key("max_queued_creates", c.admission.max_queued_creates, Live,
        "Creates that may wait behind those; the server answers further ones with 429.");

  s.section("templates", true);
  s.key("build_timeout_seconds", c.templates.build_timeout, Live,
        "How long the sandbox of a template's build may take until it is warm; the build fails after that.");
  s.key(
      "publish_directories", c.templates.publish_directories, Live,
      "Directories in which templates may be published as archives (`file:///DIRECTORY/NAME.tar`). None: such creates "
      "are refused.");
  s.key("publish_registries", c.templates.publish_registries, Live,
        "Registries in which templates may be published as images (`oci://REGISTRY/REPOSITORY:TAG`): `HOST`, or "
        "`HOST/REPOSITORY` for that repository and those below it. None: such creates are refused.");
  s.key("registry_auth_file", c.templates.registry_auth_file, Live,
        "Credentials for those registries: a `config.json` as `docker login` writes it. Empty: none.");

  s.section("docker", true);
  s.only_for(RuntimeType::Docker, c.runtime.type);
  s.key(
      "network_mode", c.docker.network_mode, Restart,
      "`bridge`, `host` or the name of a network that exists. With `host` sandboxes reach all services of the engine's "
      "host.",
      {.empty = false});
  s.key("isolate_network", c.docker.isolate_network, Restart,
        "With `bridge`: sandboxes do not reach each other, in a network that the server makes. `false`: the engine's "
        "own bridge.",
        {.security = true});
  s.key("allow_metadata", c.docker.allow_metadata, Restart,
        "With `isolate_network`: `true` lets sandboxes reach link-local addresses and the metadata services of clouds, "
        "which give the machine's credentials to every client. `false`: a server that runs as root beside the engine "
        "closes them, and the engine's host and private networks; others warn at their start.",
        {.security = true});
  s.key("allow_private_networks", c.docker.allow_private_networks, Restart,
        "Likewise: `true` lets sandboxes reach private networks (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, "
        "100.64.0.0/10, 240.0.0.0/4), not the engine's host.",
        {.security = true});
  s.key("allowed_networks", c.docker.allowed_networks, Restart,
        "Networks that sandboxes reach all the same, `10.1.0.0/16`; an address is `10.1.2.3/32`. Also addresses of the "
        "engine's host, no metadata services. The machine's name servers need no entry; those of the engine's own "
        "settings do, and so do private addresses that egress sidecars send to.",
        {.fault = network_fault, .security = true});
  s.key("max_connections", c.docker.max_connections, Restart,
        "Connections that a sandbox has begun, where the server closes networks, and a fortieth of it new ones by TCP "
        "per second, with bursts of as many. 0: no limit.",
        {.min = 0, .max = 1 << 24});
  s.key("total_connections", c.docker.total_connections, Restart,
        "The same of all sandboxes together. -1: three twentieths of "
        "`net.netfilter.nf_conntrack_max`, which with closed ones is three quarters of the table. 0: no limit.",
        {.min = -1, .max = 1 << 24});
  s.key("publish_host", c.docker.publish_host, Restart,
        "IPv4 address of the engine's host where ports of sandboxes are published. Empty: the address where the server "
        "listens; for an engine on another machine 0.0.0.0.",
        {.fault = ipv4_fault, .security = true});
  s.key("port_range_min", c.docker.port_range_min, Restart,
        "First port of the engine's host for sandboxes, from 1024. A sandbox needs two.");
  s.key("port_range_max", c.docker.port_range_max, Restart, "Last one; at least 100 above the first.");
  s.key("sandbox_env", c.docker.sandbox_env, Restart,
        "Environment of every sandbox; a variable of the request wins. Everyone in a sandbox can read it.",
        {.written = "{}"});
  s.key("sandbox_binds", c.docker.sandbox_binds, Restart,
        "Mounts of every sandbox, `host:container[:mode]`, besides the request's volumes.", {.fault = bind_fault});
  s.key("api_timeout", c.docker.api_timeout, Restart, "Seconds to wait for an answer of the engine.");
  s.key("host_ip", c.docker.host_ip, Restart, "Address for endpoints if the server itself runs in a container.");
  s.key("drop_capabilities", c.docker.drop_capabilities, Restart, "Capabilities taken from sandboxes.",
        {.security = true});
  s.key("apparmor_profile", c.docker.apparmor_profile, Restart, "Empty: the engine's own profile.", {.security = true});
  s.key("no_new_privileges", c.docker.no_new_privileges, Restart, "Programs with setuid gain nothing in a sandbox.",
        {.security = true});
  s.key("seccomp_profile", c.docker.seccomp_profile, Restart, "Empty: the engine's own profile.", {.security = true});
  s.key("pids_limit", c.docker.pids_limit, Restart,
        "Processes of a sandbox, and the most that a request may ask for; 0 is no limit.", {.min = -1});
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  s.key("default_memory_bytes", c.docker.ceilings.default_memory_bytes, Restart,
        "Memory of a sandbox whose request sets no limit. -1: half of nine tenths of the engine's memory. 0: no limit.",
        {.min = -1, .max = kMost});
  s.key(
      "max_memory_bytes", c.docker.ceilings.max_memory_bytes, Restart,
      "Memory that a request may ask for. -1: nine tenths of the engine's memory, and at least the 2 GiB that SDKs ask "
      "for. 0: no limit.",
      {.min = -1, .max = kMost});
  s.key("default_cpu_millis", c.docker.ceilings.default_cpu_millis, Restart,
        "CPU time of a sandbox whose request sets no limit; 1000 is one CPU. -1: half of the engine's CPUs, at least "
        "two. 0: no limit.",
        {.min = -1, .max = 1'000'000});
  s.key("max_cpu_millis", c.docker.ceilings.max_cpu_millis, Restart,
        "CPU time that a request may ask for. -1: all CPUs of the engine. 0: no limit.", {.min = -1, .max = 1'000'000});
  for (const IoRate& kind : kIoRates) {
    const Allowed rate{.min = 0, .max = kind.most};
    s.key(kind.default_setting(), c.docker.ceilings.default_io.*kind.field, Restart, kind.about_default(), rate);
    s.key(kind.max_setting(), c.docker.ceilings.max_io.*kind.field, Restart, kind.about_max(), rate);
  }
  s.key("total_memory_bytes", c.docker.ceilings.total_memory_bytes, Restart,
        "Memory of all sandboxes together, where the server can make a cgroup for them (see `cgroup_parent`). -1: the "
        "engine's memory without a tenth of it, which is at least 256 MiB and at most 8 GiB. 0: no limit.",
        {.min = -1, .max = kMost});
  s.key("total_pids", c.docker.ceilings.total_pids, Restart,
        "Processes and threads of all sandboxes together, likewise. -1: three quarters of those that the kernel gives. "
        "0: no limit.",
        {.min = -1, .max = 4 << 20});
  s.key(
      "cgroup_parent", c.docker.cgroup_parent, Restart,
      "Cgroup that holds all sandboxes, whose limits are the operator's to set: `opensandbox.slice` with the systemd "
      "driver, `/opensandbox` with cgroupfs. Empty: a server that runs as root beside an engine with the cgroupfs "
      "driver makes `/opensandbox-containers` with `total_memory_bytes` and `total_pids`; others use the engine's own, "
      "which has no limit.");
  s.key("reserve_bytes", c.docker.reserve_bytes, Restart,
        "Bytes of the engine's disk that creates, snapshots and uploads into sandboxes leave free; below that the "
        "server refuses creates with 429, and execd uploads with 507. An engine on another machine: uploads only. -1: "
        "a twentieth of the disk, at most 1 GiB. 0: sandboxes may fill the disk.",
        {.min = -1, .max = kMost});
  s.key("reserve_inodes", c.docker.reserve_inodes, Restart,
        "The same for inodes. -1: a twentieth, at most 100,000. 0: sandboxes may take all.", {.min = -1, .max = kMost});
  s.key(
      "allow_setuid_files", c.docker.allow_setuid_files, Restart,
      "`true`: sandboxes with a writable host path may set setuid and setgid bits and file capabilities also where the "
      "path is not mounted nosuid on the host. Every user of the host who reaches such a file becomes root.",
      {.security = true});

  s.section("proxy");
  s.key("answer_timeout_seconds", c.proxy.answer_timeout, Live,
        "Seconds from the beginning of a request until a port's answer begins, after which the answer is 504 "
        "`BACKEND_TIMEOUT`. The time of an upload counts. None: a port may take its time.",
        {.min = 1, .written = "300"});
  s.only_for(RuntimeType::Docker, c.runtime.type);
  s.key("resolve_internal", c.proxy.resolve_internal, Restart,
        "With docker: the server's proxy goes to the addresses of sandboxes. `false`: to the ports that the engine "
        "publishes, for a server that does not reach those addresses.");

  s.section("egress", true);
  s.key("image", c.egress.image, Restart,
        "Image of the egress sidecar; networkPolicy needs it on docker and kubernetes.");
  s.key("mode", c.egress.mode, Restart,
        "`dns+nft` or `dns`: the name that the policy API answers with. Addresses are enforced in both.",
        {.choices = {"dns", "dns+nft"}});
  s.key("disable_ipv6", c.egress.disable_ipv6, Restart, "Sandboxes with a network policy have no IPv6.");
  s.key("dns_upstream", c.egress.dns_upstream, Restart,
        "Addresses of the resolvers that sidecars ask; empty: those of this machine.", {.fault = resolver_fault});
  s.key("otlp_endpoint", c.egress.otlp_endpoint, Restart, "Where sidecars send their metrics: an http or https URL.",
        {.fault = url_fault});
  s.key("upstream_ca", c.egress.upstream_ca, Restart,
        "File with certificates (PEM) that servers behind a credential vault may be signed by, besides the list of the "
        "sidecar's image. Read when a sandbox is made. On docker; sandboxd has its own setting.");
  s.key(
      "scrub_bodies", c.egress.scrub_bodies, Restart,
      "Credential vaults take secrets out of the bodies of answers, too: plain, in base64 and percent-encoded. Bodies "
      "are then not compressed. On docker; sandboxd has its own setting.");
  s.key("pins", c.egress.pins, Restart,
        "Addresses of bound hosts, `HOST=ADDRESS`, that credential vaults use instead of the resolvers' answers. On "
        "docker; "
        "sandboxd has its own setting.",
        {.fault = pin_fault});
  s.key("readiness_timeout_seconds", c.egress.readiness_timeout, Restart, "Seconds to wait for a sidecar.",
        {.positive = true});
  s.key("requests", c.egress.requests, Restart, "Resources that a sidecar asks for, on kubernetes.", {.written = "{}"});
  s.key("limits", c.egress.limits, Restart, "Resources that a sidecar may use: `cpu` and `memory`.", {.written = "{}"});
  declare_upstream_proxy(s, c.egress.upstream_proxy);

  s.section("policies");
  s.key("directory", c.policies.directory, Live,
        "Directory of policy templates, `NAME.toml`, and of `catalogue.toml`, which extends the catalogue of "
        "capabilities; files that change are read again. Empty: there are none.");
  s.key("default", c.policies.default_template, Live,
        "Template of sandboxes whose create names none. Empty: they have no network policy.");
}

void declare_credentials(Settings& s, CredentialsSection& c) {
  s.section("credentials");
  s.other("entries",
          "Secrets that bindings of credential vaults may use: `[[credentials.entries]]` with `name`, `provider` "
          "(`file`, `command`, `vault-kv2` or `oauth2`), `hosts` (that the value may go to), `tenants` (that may name "
          "it; `[\"default\"]`, `[\"*\"]` is everyone), `refresh_seconds`, `timeout_seconds` and the provider's own "
          "keys: [credential-vault.md](credential-vault.md#entries-of-the-operator).",
          "[]", "", Live);
  s.holds(c);
}

void declare_storage(Settings& s, ServerConfig& c) {
  s.section("storage");
  s.key("allowed_host_paths", c.storage.allowed_host_paths, Live,
        "Directories of the host that volumes may use, with all below them; empty refuses all. sandboxd has its own "
        "list, "
        "and both must allow a path.");
  s.key("volume_default_size", c.storage.volume_default_size, Restart, "Size of claims that are made automatically.");
  s.key("ossfs_mount_root", c.storage.ossfs_mount_root, Restart, "Directory of mounted buckets.", {.absolute = true});

  s.section("store", true);
  s.key("type", c.store.type, Restart, "The database of the records; there is no `postgresql` yet.",
        {.choices = {"sqlite"}});
  s.key("path", c.store.path, Restart, "Its file.", {.empty = false});
  declare_missing_parts(s);
}

void declare_renew_intent(Settings& s, RenewIntentSection& c) {
  s.section("renew_intent");
  s.key("enabled", c.enabled, Live, "Access through the server's proxy extends sandboxes that asked for it.");
  s.key("min_interval_seconds", c.min_interval, Live, "Seconds between two extensions of one sandbox.");

  s.section("renew_intent.redis", true);
  s.key("enabled", c.redis.enabled, Restart,
        "Accesses that a gateway has seen extend sandboxes too: it pushes `{\"sandbox_id\",\"observed_at\"}` to a list "
        "in "
        "Redis. While Redis is away, everything else works.");
  s.key("dsn", c.redis.dsn, Restart, "Address of Redis: `redis://`, `rediss://` or `unix://`.");
  s.key("queue_key", c.redis.queue_key, Restart, "Name of the list.", {.empty = false});
  s.key("consumer_concurrency", c.redis.consumer_concurrency, Restart, "Entries handled at once.", {.min = 1});
}

}  // namespace

void declare_server_settings(Settings& s, ServerConfig& config) {
  declare_server(s, config.server);
  declare_log(s, config.log);
  declare_backends(s, config);
  declare_credentials(s, config.credentials);
  declare_storage(s, config);
  declare_renew_intent(s, config.renew_intent);
  declare_cluster_settings(s, config);
}

}  // namespace osb::config
