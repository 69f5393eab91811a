#include "sandboxd/daemon/config.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "base/ip_address.h"
#include "base/toml.h"
#include "http/url.h"
#include "sys/spawn.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

// The declarations of one section's keys: name, field with its default, limits, documentation. Reads a file's values
// into the fields and remembers which keys are known, so that the rest can be refused; or lists the keys.
class Section {
 public:
  Section(const toml::table& root, std::string name, std::string& error)
      : name_(std::move(name)), table_(root[name_].as_table()), error_(&error) {
    if (root.contains(name_) && table_ == nullptr) say("", "expected a table");
  }
  Section(std::string name, std::vector<config::SettingText>& rows) : name_(std::move(name)), rows_(&rows) {}

  void text(const char* key, std::string& out, const char* about) {
    note(key, config::toml_string(out), about);
    read(key, "a string", [&](const toml::node& node) {
      const auto value = node.value_exact<std::string>();
      if (value) out = *value;
      return value.has_value();
    });
  }
  void path(const char* key, std::filesystem::path& out, const char* about) {
    std::string value = out.string();
    text(key, value, about);
    out = value;
  }
  void flag(const char* key, bool& out, const char* about) {
    note(key, out ? "true" : "false", about);
    read(key, "true or false", [&](const toml::node& node) {
      const auto value = node.value_exact<bool>();
      if (value) out = *value;
      return value.has_value();
    });
  }
  template <typename T>
  void number(const char* key, T& out, std::int64_t min, std::int64_t max, const char* about) {
    note(key, std::to_string(out), about);
    read(key, "a number from " + std::to_string(min) + " to " + std::to_string(max), [&](const toml::node& node) {
      const auto value = node.value_exact<std::int64_t>();
      if (!value || *value < min || *value > max) return false;
      out = static_cast<T>(*value);
      return true;
    });
  }
  // `fallback`: the default as TOML.
  void list(const char* key, const std::string& fallback, const char* about,
            const std::function<Result<void>(const std::string&)>& add) {
    note(key, fallback, about);
    std::string why;
    read(key, "a list of strings", [&](const toml::node& node) {
      const toml::array* array = node.as_array();
      if (array == nullptr) return false;
      for (const toml::node& each : *array) {
        const auto value = each.value_exact<std::string>();
        if (!value) return false;
        if (auto added = add(*value); !added && why.empty()) why = added.error().message;
      }
      return true;
    });
    if (!why.empty()) say(key, why);
  }
  template <typename F>
  void parsed(const char* key, const std::string& fallback, const char* about, F parse) {
    if (rows_ != nullptr) return note(key, config::toml_string(fallback), about);
    std::string value;
    text(key, value, about);
    if (value.empty()) return;
    if (auto done = parse(value); !done) say(key, done.error().message);
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> out;
    if (table_ == nullptr) return out;
    for (const auto& [key, node] : *table_) out.emplace_back(key.str());
    return out;
  }
  // A string, or a list of them.
  void words(const char* key, const std::function<void(const std::string&)>& add) {
    if (table_ != nullptr && table_->get(key) != nullptr && table_->get(key)->is_string()) {
      std::string word;
      text(key, word, "");
      add(word);
      return;
    }
    list(key, "", "", [&](const std::string& word) -> Result<void> { return add(word), Result<void>(); });
  }
  // A key of any name.
  void any(const char* name, const char* written, const char* about) {
    note(name, "", about);
    if (rows_ != nullptr) rows_->back().written = written;
  }
  void say(const std::string& key, const std::string& why) {
    if (error_->empty()) *error_ = "[" + name_ + "]" + (key.empty() ? "" : " " + key) + ": " + why;
  }
  // After all reads.
  void refuse_others() {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : *table_) {
      if (!known_.contains(key.str())) say(std::string(key.str()), "no such setting");
    }
  }

 private:
  void note(const char* key, const std::string& fallback, const char* about) {
    if (rows_ == nullptr) return;
    rows_->push_back({.section = name_, .key = key, .fallback = fallback, .written = "", .about = about});
    rows_->back().commented = true;
  }
  void read(const char* key, const std::string& expected, const std::function<bool(const toml::node&)>& take) {
    known_.insert(key);
    const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    if (node != nullptr && !take(*node)) say(key, "expected " + expected);
  }
  const std::string name_;
  const toml::table* table_ = nullptr;
  std::string* error_ = nullptr;
  std::vector<config::SettingText>* rows_ = nullptr;  // null: reading
  std::set<std::string, std::less<>> known_;
};

void read_daemon(Section s, DaemonConfig& out) {
  s.text("socket", out.socket, "Socket of the API.");
  s.text(
      "group", out.group,
      "Name or number of a group: its members may use the sockets, as root may. Without such a group only root may.");
  s.text("state_directory", out.sandbox.state_directory, "Images, volumes, snapshots and sandboxes; mode 0700.");
  s.text("run_directory", out.sandbox.run_directory, "Sockets of sandboxes.");
  s.text("cgroup_parent", out.cgroup_parent, "Every sandbox has its cgroup below this one.");
  s.text(
      "execd", out.sandbox.execd,
      "The program that runs as PID 1 in sandboxes; everyone must be able to read and execute it. Empty: `execd` next "
      "to `sandboxd`.");
  s.parsed("log_level", "info", "`debug`, `info`, `warn` or `error`.", [&](const std::string& text) -> Result<void> {
    auto level = parse_log_level(text);
    if (!level) return Failure(level.error());
    out.log_level = *level;
    return {};
  });
  s.parsed("log_format", "text", "`text` or `json`, to standard error.", [&](const std::string& text) -> Result<void> {
    if (text != "text" && text != "json") return fail(Code::InvalidRequest, "expected text or json");
    out.log_format = text == "json" ? LogFormat::Json : LogFormat::Text;
    return {};
  });
  s.refuse_others();
}

void read_ceilings(Section& s, Ceilings& out) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  s.number("max_pids", out.max_pids, -1, 4 << 20,
           "Processes and threads that a request may ask for. -1: half of `total_pids`. 0: no limit.");
  s.number("total_pids", out.total_pids, -1, 4 << 20,
           "Processes and threads of all sandboxes together. -1: three quarters of those that the kernel gives "
           "(`kernel.pid_max`, `kernel.threads-max`), so that the host can always start a program. 0: no limit.");
  s.number("default_memory_bytes", out.default_memory_bytes, -1, kMost,
           "Memory of a sandbox whose request sets no limit. -1: half of `total_memory_bytes`. 0: no limit.");
  s.number(
      "max_memory_bytes", out.max_memory_bytes, -1, kMost,
      "Memory that a request may ask for. -1: `total_memory_bytes`, and at least the 2 GiB that SDKs ask for. 0: no "
      "limit.");
  s.number(
      "total_memory_bytes", out.total_memory_bytes, -1, kMost,
      "Memory of all sandboxes together. -1: the host's memory without a tenth of it, which is at least 256 MiB and "
      "at most 8 GiB. 0: no limit.");
  s.number("default_cpu_millis", out.default_cpu_millis, -1, 1'000'000,
           "CPU time of a sandbox whose request sets no limit; 1000 is one CPU. -1: half of the host's CPUs, at least "
           "two. 0: no limit.");
  s.number("max_cpu_millis", out.max_cpu_millis, -1, 1'000'000,
           "CPU time that a request may ask for. -1: all CPUs of the host. 0: no limit.");
  s.number("max_disk_bytes", out.max_disk_bytes, -1, kMost,
           "Disk that a request may ask for. -1: the size of the state directory's file system. 0: no limit.");
  s.number("max_sandboxes", out.max_sandboxes, -1, 1 << 20,
           "Sandboxes that may exist at once; further creates get 429. -1: one for every 4 MiB of "
           "`total_memory_bytes` and every 4 of `total_pids`. 0: no limit.");
  for (const config::IoRate& kind : config::kIoRates) {
    s.number(kind.default_setting().c_str(), out.default_io.*kind.field, 0, kind.most, kind.about_default().c_str());
    s.number(kind.max_setting().c_str(), out.max_io.*kind.field, 0, kind.most, kind.about_max().c_str());
  }
}

void read_sandbox(Section s, DaemonConfig& out) {
  s.number("default_pids", out.sandbox.default_pids, 16, 4 << 20,
           "Processes and threads of a sandbox whose request sets no limit.");
  read_ceilings(s, out.sandbox.ceilings);
  s.number("default_shm_bytes", out.sandbox.default_shm_bytes, 4096, std::int64_t{1} << 40, "Size of `/dev/shm`.");
  s.number(
      "default_disk_bytes", out.disk.sandbox_bytes, -1, std::int64_t{1} << 50,
      "Bytes that a sandbox may write to its own layer if its request sets no limit. 0: no limit. -1: a quarter of "
      "the disk, at most 10 GiB, where the disk can limit directories (`[disk]`), else no limit.");
  s.flag("allow_host_network", out.sandbox.allow_host_network, "Requests may ask for network mode `host`.");
  s.flag("allow_host_image", out.sandbox.allow_host_image,
         "Sandboxes may be made of image `host`, the programs of this machine.");
  s.text("exec_label", out.sandbox.exec_label,
         "Label of sandboxes: an SELinux context, or `exec PROFILE` for AppArmor.");
  s.flag("core_scheduling", out.sandbox.core_scheduling,
         "No two sandboxes run on the threads of one core at the same time (native runtime; Linux 5.14 with "
         "`CONFIG_SCHED_CORE`). Against side channels between them; costs throughput on machines with SMT.");
  s.text("default_runtime", out.sandbox.default_runtime,
         "Runtime of sandboxes whose request names none: `native`, or a name of `[runtimes]`.");
  s.list("allowed_host_paths", "[]", "Directories of the host that sandboxes may mount, with all below them.",
         [&](const std::string& path) -> Result<void> {
           if (!path.starts_with("/")) return fail(Code::InvalidRequest, "'" + path + "' is not an absolute path");
           out.volumes.allowed_host_paths.emplace_back(path);
           return {};
         });
  s.parsed("host_ids", "owner",
           "Owners of files in host paths. `owner`: root inside is the owner of the mounted directory if no other user "
           "of the host can reach it; all other ids are nobody on the host. `same`: the same ids inside and outside, "
           "only for directories that root alone can reach. `foreign`: the rights of others, and new files belong to "
           "the sandbox's own ids.",
           [&](const std::string& text) -> Result<void> {
             static const std::map<std::string, HostIds> names = {
                 {"owner", HostIds::Owner}, {"same", HostIds::Same}, {"foreign", HostIds::Foreign}};
             const auto found = names.find(text);
             if (found == names.end()) return fail(Code::InvalidRequest, "expected owner, same or foreign");
             out.volumes.host_ids = found->second;
             return {};
           });
  s.refuse_others();
}

// `name = ["native", "--seccomp-profile=/path"]`.
void read_class(Section& s, const std::string& name, const std::vector<std::string>& words, DaemonConfig& out) {
  constexpr std::string_view kProfile = "--seccomp-profile=/";
  if (words.size() != 2 || !words[1].starts_with(kProfile)) {
    return s.say(name, "expected [\"native\", \"--seccomp-profile=/PATH\"]");
  }
  out.sandbox.classes[name].seccomp_file = words[1].substr(kProfile.size() - 1);
}

// `name = "/path"` or `name = ["/path", "--option"]`.
void read_runtimes(Section s, DaemonConfig& out) {
  s.any("runsc", "[\"/usr/local/bin/runsc\", \"--platform=kvm\"]",
        "An OCI runtime under a name of your choice: its path, or a list of path and options. `runsc` is known if it "
        "is in `PATH`. `[\"native\", \"--seccomp-profile=/etc/opensandbox/strict.json\"]` is a class of ordinary "
        "sandboxes "
        "with one more seccomp profile, in Docker's format, which can only forbid.");
  for (const std::string& name : s.keys()) {
    OciProgram program;
    s.words(name.c_str(), [&](const std::string& word) { program.arguments.push_back(word); });
    if (name != "native" && !program.arguments.empty() && program.arguments.front() == "native") {
      read_class(s, name, program.arguments, out);
      continue;
    }
    if (program.arguments.empty() || !program.arguments.front().starts_with("/") || name == "native") {
      s.say(name, name == "native" ? "that is the name of sandboxd's own" : "expected an absolute path");
      continue;
    }
    program.path = program.arguments.front();
    program.arguments.erase(program.arguments.begin());
    out.sandbox.runtimes.insert_or_assign(name, std::move(program));
  }
}

// gVisor needs no configuration where it is installed.
void find_runtimes(DaemonConfig& out) {
  if (out.sandbox.runtimes.contains("runsc")) return;
  const char* path = std::getenv("PATH");
  if (auto found = sys::find_program("runsc", path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path)) {
    out.sandbox.runtimes.emplace("runsc", OciProgram{*found});
  }
}

void read_network(Section s, DaemonConfig& out) {
  NetworkConfig& network = out.network;
  s.parsed("subnet", format_subnet(network.subnet),
           "Addresses of sandboxes; the first one is the host, seen from inside.",
           [&](const std::string& text) -> Result<void> {
             auto subnet = parse_subnet(text);
             if (!subnet) return Failure(subnet.error());
             network.subnet = *subnet;
             return {};
           });
  s.number("mtu", network.mtu, 0, 65535, "0: that of the default route's interface.");
  s.number("ready_slots", network.ready_slots, 0, 4096, "Network slots kept ready.");
  s.number("first_id", network.first_id, 3 * 65536, std::int64_t{1} << 31,
           "First user and group id of sandboxes, on the host; each sandbox has 65,536.");
  s.text("table", network.table, "Name of the nftables table; it differs between daemons of one host.");
  s.text("interface_prefix", network.interface_prefix,
         "Beginning of interface names; it differs between daemons of one host.");
  s.flag("answer_ping", network.answer_ping, "The host answers pings of sandboxes.");
  const auto rate = [&s](const char* key, std::uint64_t& field, const char* about) {
    s.number(key, field, 0, static_cast<std::int64_t>(kMostBandwidth), about);
  };
  rate("default_receive_bps", out.sandbox.default_bandwidth.receive,
       "Bytes per second that a sandbox receives if its request sets no limit; 0 is no limit.");
  rate("default_send_bps", out.sandbox.default_bandwidth.send,
       "Bytes per second that a sandbox sends if its request sets no limit; 0 is no limit.");
  rate("max_receive_bps", out.sandbox.max_bandwidth.receive,
       "Bytes per second that a sandbox receives at most, whatever its request says; 0 is no limit.");
  rate("max_send_bps", out.sandbox.max_bandwidth.send,
       "Bytes per second that a sandbox sends at most, whatever its request says; 0 is no limit.");
  s.number(
      "max_connections", network.max_connections, 0, 1 << 20,
      "Connections of a sandbox at a time, in the kernel's table that all of the host share; 0 is no limit. New TCP "
      "connections are limited to a fortieth of it per second, with bursts of this many.");
  s.number("total_connections", network.total_connections, -1, 1 << 24,
           "The same for all sandboxes together. -1: three twentieths of `net.netfilter.nf_conntrack_max`; with closed "
           "connections, which stay in the table for two minutes, sandboxes take three quarters of it at most. 0: no "
           "limit.");
  const auto networks = [&s](const char* key, std::vector<Subnet>& out, const char* about) {
    s.list(key, "[]", about, [&out](const std::string& text) -> Result<void> {
      auto subnet = parse_subnet(text);
      if (!subnet) return Failure(subnet.error());
      out.push_back(*subnet);
      return {};
    });
  };
  networks(
      "blocked", network.blocked,
      "Networks that no sandbox reaches, besides private networks, link-local and metadata addresses. It beats the "
      "other keys.");
  s.flag("allow_private_networks", network.allow_private_networks,
         "Sandboxes reach private networks: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, 240.0.0.0/4.");
  networks("allowed_networks", network.allowed_networks, "Parts of private networks that sandboxes reach.");
  networks("allowed_metadata", network.allowed_metadata,
           "Link-local and metadata addresses of clouds that sandboxes reach, of 169.254.0.0/16, 100.100.100.200/32, "
           "168.63.129.16/32 and 192.0.0.192/32. Metadata services give the host's credentials to every client.");
  s.list("dns", "[]", "Name servers of sandboxes if the host has only loopback ones.",
         [&](const std::string& text) -> Result<void> {
           if (auto address = parse_ipv4(text); !address) return Failure(address.error());
           network.dns.push_back(text);
           return {};
         });
  s.refuse_others();
  out.sandbox.dns = network.dns;
}

void read_egress(Section s, EgressConfig& out) {
  s.text("program", out.program,
         "The program that answers questions of sandboxes with a network policy. Every user has the "
         "right to execute it; its directory may be closed to others. Empty: `opensandbox-egress` next to `sandboxd`.");
  s.text("rules_directory", out.rules_directory,
         "Directory of `deny.always` and `allow.always`: rules for all sandboxes with a network policy, before their "
         "own. Changes take effect at once.");
  s.list("resolvers", "[]", "Name servers for sandboxes with a network policy: `ADDRESS:PORT`. Empty: the host's.",
         [&](const std::string& text) -> Result<void> { return out.resolvers.push_back(text), Result<void>(); });
  const auto report_url = [](std::string& to) {
    return [&to](const std::string& text) -> Result<void> {
      const auto url = http::Url::parse(text);
      if (!url || url->scheme == "unix") return fail(Code::InvalidRequest, "expected http:// or https://HOST:PORT");
      to = text;
      return {};
    };
  };
  s.parsed(
      "otlp_endpoint", out.otlp_endpoint,
      "Where metrics of network policies go, as OTLP over HTTP: `http://HOST:PORT` or `https://HOST:PORT`. Sandboxes "
      "with a network policy may reach the host too. Empty: nowhere.",
      report_url(out.otlp_endpoint));
  s.number("otlp_interval_seconds", out.otlp_interval_seconds, 1, 3600, "Seconds between two reports of metrics.");
  s.parsed("deny_webhook", out.deny_webhook,
           "An `http://` or `https://` URL that gets a POST for each name that a network policy denies. Empty: none.",
           report_url(out.deny_webhook));
  s.flag("log_names", out.log_names,
         "Logs each name of sandboxes with a network policy that is resolved, with its addresses.");
  s.text("upstream_ca", out.upstream_ca,
         "File with certificates (PEM) that servers behind a credential vault, the collector and the webhook may be "
         "signed by, besides the machine's own list. Read when the egress process starts.");
  s.parsed(
      "upstream_proxy", out.upstream_proxy,
      "An HTTP proxy, `http://HOST:PORT`, that connections to ports 80 and 443 of sandboxes with a network policy go "
      "through, by CONNECT with the host's name. Creates with a network policy then need `credentialProxy`. If the "
      "proxy opens TLS itself, its authority belongs into `upstream_ca`. Empty: none.",
      [&](const std::string& text) -> Result<void> {
        const auto url = http::Url::parse(text);
        if (!url || url->scheme != "http" || url->target != "/") {
          return fail(Code::InvalidRequest, "expected http://HOST:PORT");
        }
        out.upstream_proxy = "http://" + url->host + ":" + std::to_string(url->port);
        return {};
      });
  s.text("upstream_proxy_authorization", out.upstream_proxy_authorization,
         "`Proxy-Authorization` for it, such as `Basic dXNlcjpzZWNyZXQ=`: then let only root read this file.");
  if (out.upstream_proxy_authorization.find_first_of("\r\n") != std::string::npos)
    s.say("upstream_proxy_authorization", "expected one line");
  if (out.upstream_proxy.empty() && !out.upstream_proxy_authorization.empty())
    s.say("upstream_proxy_authorization", "needs upstream_proxy");
  s.flag("scrub_bodies", out.scrub_bodies,
         "Credential vaults take secrets out of the bodies of answers, too: plain, in base64 and percent-encoded. "
         "Bodies are "
         "then not compressed.");
  s.list("pins", "[]",
         "Addresses of bound hosts, `HOST=ADDRESS`, that credential vaults use instead of the resolvers' answers.",
         [&](const std::string& text) -> Result<void> {
           const auto equals = text.find('=');
           if (equals == 0 || equals == std::string::npos || !parse_ip_address(text.substr(equals + 1)))
             return fail(Code::InvalidRequest, "expected HOST=ADDRESS");
           return out.pins.push_back(text), Result<void>();
         });
  s.refuse_others();
}

void read_images(Section s, DaemonConfig& out) {
  s.number("keep_bytes", out.images.keep_bytes, 0, std::int64_t{1} << 60,
           "Bytes of layers to keep. Beyond them, unused layers are removed first, then unused images.");
  s.path("ca_file", out.images.ca_file, "Certificate authorities that are trusted besides the system's.");
  const auto add_to = [](std::vector<image::RegistryName>& list) {
    return [&list](const std::string& text) -> Result<void> {
      auto name = image::RegistryName::parse(text);
      if (!name) return Failure(name.error());
      list.push_back(std::move(*name));
      return {};
    };
  };
  s.list("private_registries", "[]",
         "Registries that may be on this machine or on a private network: `HOST`, `HOST:PORT` or `HOST:*`. On loopback "
         "they may do without TLS. Redirects and token servers that lead to other such hosts are refused.",
         add_to(out.images.registries.private_places));
  s.list("insecure_registries", "[]", "Registries without TLS, at any address.",
         add_to(out.images.registries.insecure));
  s.list("allowed_directories", "[]", "Root directories that may become images.",
         [&](const std::string& path) -> Result<void> {
           out.images.allowed_directories.emplace_back(path);
           return {};
         });
  s.refuse_others();
}

void read_disk(Section s, DaemonConfig& out) {
  s.number(
      "reserve_bytes", out.disk.reserve.bytes, -1, std::int64_t{1} << 60,
      "Below so many free bytes on the state directory's file system, creates, pulls, uploads of images, snapshots "
      "and new volumes are refused. -1: a twentieth of the file system, at most 1 GiB. 0: never refused.");
  s.number("reserve_inodes", out.disk.reserve.inodes, -1, std::int64_t{1} << 60,
           "The same for inodes. -1: a twentieth of the file system's, at most 100,000.");
  s.number(
      "image_bytes", out.disk.image_bytes, 0, std::int64_t{1} << 50,
      "Size of a btrfs in one file, `disk.btrfs` in the state directory, that sandboxd makes and mounts for all that "
      "sandboxes write. It limits directories on hosts without project quotas, needs `mkfs.btrfs`, takes the space "
      "that is used, and grows with this number; 1 GiB is the least that makes sense. 0: none is made; one that exists "
      "is used.");
  s.flag("image_files", out.disk.image_files,
         "An ext4 in a file for each sandbox and each named volume, where neither project quotas nor btrfs can limit "
         "directories: the last resort. Needs loop devices and `mkfs.ext4`. Files take the space that is used. Images "
         "that "
         "exist stay in use without it.");
  s.text(
      "directory", out.disk.directory,
      "A directory for all that sandboxes write, on a file system that can limit directories: xfs or ext4 with "
      "`prjquota`, or a btrfs of its own, whose quotas sandboxd turns on. Empty: the state directory, or the image.");
  s.number("volume_bytes", out.disk.volume_bytes, -1, std::int64_t{1} << 50,
           "Limit of each new named volume. 0: no limit. -1: as with `default_disk_bytes`.");
  s.number(
      "snapshot_bytes", out.disk.snapshot_bytes, -1, std::int64_t{1} << 60,
      "Limit of all snapshots together, on any file system; they also take at most half of its inodes. 0: no limit. "
      "-1: half of the state directory's file system.");
  s.refuse_others();
}

}  // namespace

Result<DaemonConfig> parse_config(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    return fail(Code::InvalidRequest, name + ", line " + std::to_string(parsed.error().source().begin.line) + ": " +
                                          std::string(parsed.error().description()));
  }
  const toml::table& root = parsed.table();
  DaemonConfig out;
  std::string error;
  read_daemon(Section(root, "daemon", error), out);
  read_sandbox(Section(root, "sandbox", error), out);
  read_runtimes(Section(root, "runtimes", error), out);
  read_network(Section(root, "network", error), out);
  read_egress(Section(root, "egress", error), out.egress);
  read_images(Section(root, "images", error), out);
  read_disk(Section(root, "disk", error), out);
  const std::set<std::string, std::less<>> sections = {"daemon", "sandbox", "runtimes", "network",
                                                       "egress", "images",  "disk"};
  for (const auto& [key, node] : root) {
    if (!sections.contains(key.str()) && error.empty()) error = "[" + std::string(key.str()) + "]: no such section";
  }
  if (!error.empty()) return fail(Code::InvalidRequest, name + ": " + error);
  find_runtimes(out);
  if (const std::string& runtime = out.sandbox.default_runtime;
      runtime != "native" && !out.sandbox.runtimes.contains(runtime) && !out.sandbox.classes.contains(runtime)) {
    return fail(Code::InvalidRequest,
                name + ": [sandbox] default_runtime: '" + runtime + "' is not in [runtimes], and not in PATH");
  }
  if (auto valid = validate(out.network); !valid) return with_context(name + ": [network]", valid.error());
  complete_config(out);
  return out;
}

std::vector<config::SettingText> daemon_settings() {
  std::vector<config::SettingText> out;
  DaemonConfig defaults;
  read_daemon(Section("daemon", out), defaults);
  read_sandbox(Section("sandbox", out), defaults);
  read_runtimes(Section("runtimes", out), defaults);
  read_network(Section("network", out), defaults);
  read_egress(Section("egress", out), defaults.egress);
  read_images(Section("images", out), defaults);
  read_disk(Section("disk", out), defaults);
  return out;
}

std::string settings_page() {
  return config::reference_page(R"(# Settings of sandboxd

The keys of `/etc/opensandbox/sandboxd.toml` ([sandboxd.md](sandboxd.md)). The file belongs to root: the server is trusted
with sandboxes, not with the host. An unknown key is an error. Changes take effect after a restart of sandboxd; sandboxes
keep running.

`scripts/settings` makes this page from the declarations in `src/sandboxd/daemon/config.cc`.
)",
                                daemon_settings(), false);
}

std::string settings_example() {
  return config::example_file(
      "Settings of sandboxd: /etc/opensandbox/sandboxd.toml. Every key with its default, as a comment. Changes take "
      "effect "
      "after: systemctl restart sandboxd. Sandboxes keep running.",
      daemon_settings());
}

Result<DaemonConfig> load_config(const std::string& path, bool required) {
  auto text = sys::read_text(path, 1 << 20);
  if (!text && text.error().code == Code::NotFound && !required) return parse_config("", path);
  if (!text) return Failure(text.error());
  return parse_config(*text, path);
}

void complete_config(DaemonConfig& config) {
  const std::filesystem::path state = config.sandbox.state_directory;
  config.images.directory = state / "images";
  config.volumes.directory = state / "volumes";
  config.volumes.own_directories = {state};
  config.volumes.file_ids = config.network.file_ids();
  config.disk.reserve.places = {{state}};
  config.disk.reserve.reason = "NATIVE::DISK_LOW";
  config.disk.reserve.section = "sandboxd's [disk]";
  config.images.reserve = config.volumes.reserve = config.sandbox.reserve = config.disk.reserve;
}

namespace {

// A sandbox whose request is silent gets no more than a request may ask for. A default that the operator wrote is not
// changed behind their back.
Result<void> cap_default(std::uint64_t& bytes, const DaemonConfig& config, const WritableDisk& disk) {
  const std::int64_t most = config.sandbox.ceilings.max_disk_bytes, wanted = config.disk.sandbox_bytes;
  const bool exceeds =
      bytes > static_cast<std::uint64_t>(most) || (bytes == 0 && disk.bytes > static_cast<std::uint64_t>(most));
  if (most <= 0 || !disk.trees.limits() || !exceeds) return {};
  if (wanted >= 0) {
    return fail(Code::InvalidRequest, "[sandbox] default_disk_bytes = " + std::to_string(wanted) +
                                          (wanted == 0 ? " (no limit)" : "") +
                                          " is above max_disk_bytes = " + std::to_string(most));
  }
  bytes = static_cast<std::uint64_t>(most);
  return {};
}

}  // namespace

Result<void> use_disk(DaemonConfig& config, const WritableDisk& disk) {
  auto sandbox = resolve_limit(config.disk.sandbox_bytes, disk, "[sandbox] default_disk_bytes");
  if (!sandbox) return Failure(sandbox.error());
  if (auto capped = cap_default(*sandbox, config, disk); !capped) return capped;
  auto volume = resolve_limit(config.disk.volume_bytes, disk, "[disk] volume_bytes");
  if (!volume) return Failure(volume.error());
  config.sandbox.disk_directory = disk.directory;
  config.sandbox.trees = config.volumes.trees = disk.trees;
  config.sandbox.default_disk_bytes = *sandbox;
  config.volumes.volume_bytes = *volume;
  config.volumes.directory = std::filesystem::path(disk.directory) / "volumes";
  if (disk.directory == config.sandbox.state_directory) return {};
  config.volumes.own_directories.emplace_back(disk.directory);
  config.disk.reserve.places.push_back({disk.directory, disk.unusable});
  config.images.reserve = config.volumes.reserve = config.sandbox.reserve = config.disk.reserve;
  return {};
}

}  // namespace osb::sandboxd
