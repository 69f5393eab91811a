#include "cli/local/service_settings.h"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "cli/local/list_directory.h"
#include "cli/local/service_network.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// JSON's strings and lists of strings are TOML's.
std::string toml(const std::string& text) { return json::serialize(json::value(text)); }
std::string toml(const std::vector<std::string>& list) {
  return json::serialize(json::array(list.begin(), list.end()));
}

// "http://HOST" is a registry without TLS.
std::string registry_settings(const ServiceRecord& record) {
  std::vector<std::string> private_places, insecure;
  for (const std::string& each : record.registries) {
    if (each.starts_with(kPlainRegistry)) {
      insecure.push_back(each.substr(kPlainRegistry.size()));
    } else {
      private_places.push_back(each);
    }
  }
  return "[images]\nprivate_registries = " + toml(private_places) + "\ninsecure_registries = " + toml(insecure) + "\n";
}

}  // namespace

fs::path sandboxd_settings(const fs::path& directory) { return directory / "sandboxd.toml"; }
fs::path server_settings(const fs::path& directory) { return directory / "server.toml"; }

std::string sandboxd_settings_text(const ServiceRecord& record) {
  return "[daemon]\ncgroup_parent = " + toml(record.cgroup_parent) +
         "\ngroup = " + toml(std::to_string(server_id_of(record.network))) +
         "\n[sandbox]\nallowed_host_paths = " + toml(record.host_paths) +
         "\n[network]\nsubnet = " + toml(subnet_of(record.network)) + "\ntable = " + toml(record.table) +
         "\ninterface_prefix = " + toml(record.interface_prefix) +
         "\nfirst_id = " + std::to_string(first_id_of(record.network)) + "\n" + registry_settings(record);
}

std::string server_settings_text(const fs::path& directory, const ServiceRecord& record) {
  // The server's user changes with the service's network: so does this text, and the server is started anew.
  return "# user " + std::to_string(server_id_of(record.network)) +
         "\n[server]\nhost = \"127.0.0.1\"\nport = " + std::to_string(record.port) + "\napi_key = " + toml(record.key) +
         "\n[runtime]\ntype = \"native\"\n[native]\nsocket = " + toml((directory / "run" / "sandboxd.sock").string()) +
         "\n[storage]\nallowed_host_paths = " + toml(record.host_paths) +
         "\n[store]\npath = " + toml((directory / "server" / "server.db").string()) + "\n";
}

Result<void> prepare_server_directory(const fs::path& directory, const ServiceRecord& record) {
  const fs::path home = directory / "server";
  if (::mkdir(home.c_str(), 0700) != 0 && errno != EEXIST) return sys::from_errno("make " + home.string(), errno);
  for (const char* name : {"server.db", "server.db-wal", "server.db-shm"}) {
    if (::rename((directory / name).c_str(), (home / name).c_str()) != 0 && errno != ENOENT) {
      return sys::from_errno("move " + (directory / name).string(), errno);
    }
  }
  // The user changes with the service's network.
  const uid_t id = server_id_of(record.network);
  std::vector<fs::path> all = list_directory(home);
  all.push_back(home);
  for (const fs::path& each : all) {
    if (::lchown(each.c_str(), id, id) != 0 && errno != ENOENT) {
      return sys::from_errno("set the owner of " + each.string(), errno);
    }
  }
  return {};
}

Result<fs::path> copy_program(const fs::path& program, const fs::path& directory) {
  fs::path copy = directory / program.filename();
  const fs::path next = copy.string() + ".new";
  std::error_code failed;
  fs::copy_file(program, next, fs::copy_options::overwrite_existing, failed);
  if (failed)
    return fail(Code::Internal, "copy " + program.string() + " to " + next.string() + ": " + failed.message());
  if (::chmod(next.c_str(), 0755) != 0 || ::rename(next.c_str(), copy.c_str()) != 0) {
    return sys::from_errno("copy " + program.string() + " to " + copy.string(), errno);
  }
  return copy;
}

}  // namespace osb::cli
