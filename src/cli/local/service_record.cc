#include "cli/local/service_record.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "cli/local/service_network.h"
#include "sys/process_tree.h"
#include "sys/replace_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace json = boost::json;

std::filesystem::path file_of(const std::filesystem::path& directory) { return directory / "service.json"; }

std::string boot_id() {
  auto text = sys::read_text("/proc/sys/kernel/random/boot_id");
  return text ? text->substr(0, text->find('\n')) : std::string();
}

json::value to_json(const std::optional<DaemonProcess>& process) {
  if (!process) return nullptr;
  return json::object{{"pid", process->pid}, {"start", process->start}, {"boot", process->boot}};
}

json::object to_json(const ServiceRecord& record) {
  json::array profiles;
  for (const SavedProfile& each : record.profiles) {
    profiles.push_back(json::object{{"file", each.file.string()}, {"name", each.name}});
  }
  return {{"port", record.port},
          {"key", record.key},
          {"cgroup_parent", record.cgroup_parent},
          {"table", record.table},
          {"interface_prefix", record.interface_prefix},
          {"network", record.network},
          {"host_paths", json::array(record.host_paths.begin(), record.host_paths.end())},
          {"registries", json::array(record.registries.begin(), record.registries.end())},
          {"profiles", std::move(profiles)},
          {"sandboxd", to_json(record.sandboxd)},
          {"server", to_json(record.server)}};
}

void read_process_of(api::ObjectReader& reader, std::string_view name, std::optional<DaemonProcess>& out) {
  reader.object(name, [&](api::ObjectReader& process) {
    out = DaemonProcess{static_cast<pid_t>(process.required_int64("pid", 1)),
                        static_cast<std::uint64_t>(process.required_int64("start", 0)),
                        process.optional_string("boot").value_or("")};
  });
}

Result<ServiceRecord> from_json(const json::value& value) {
  ServiceRecord out;
  api::ObjectReader reader(value, {});
  out.port = static_cast<std::uint16_t>(reader.required_int64("port", 1, 65535));
  out.key = reader.required_string("key");
  out.cgroup_parent = reader.required_string("cgroup_parent");
  out.table = reader.required_string("table");
  // Older versions did not write the following ones; the defaults are the values that those used.
  out.interface_prefix = reader.optional_string("interface_prefix").value_or(out.interface_prefix);
  out.network = static_cast<unsigned>(reader.optional_int64("network", 0, kServiceNetworks - 1).value_or(0));
  out.host_paths = reader.string_list("host_paths").value_or(std::vector<std::string>());
  out.registries = reader.string_list("registries").value_or(std::vector<std::string>());
  reader.array("profiles", [&](api::ObjectReader& profile) {
    out.profiles.push_back({profile.required_string("file"), profile.required_string("name")});
  });
  read_process_of(reader, "sandboxd", out.sandboxd);
  read_process_of(reader, "server", out.server);
  if (auto ok = reader.finish(); !ok) return Failure(ok.error());
  return out;
}

}  // namespace

bool DaemonProcess::alive() const {
  const auto process = sys::read_process(pid);
  return process && process->alive && process->start == start && (boot.empty() || boot == boot_id());
}

DaemonProcess identify_daemon(pid_t pid) {
  DaemonProcess out{pid, 0, boot_id()};
  if (const auto found = sys::read_process(pid)) out.start = found->start;
  return out;
}

Result<std::optional<ServiceRecord>> read_record(const std::filesystem::path& directory) {
  const std::string file = file_of(directory);
  struct stat st{};
  if (::lstat(file.c_str(), &st) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return sys::from_errno("look at " + file, errno);
  }
  // It says which processes to end, so no other user may have written it.
  if (!S_ISREG(st.st_mode) || st.st_uid != ::geteuid() || (st.st_mode & 022) != 0) {
    return fail(Code::Forbidden, file + " does not belong to this user alone; remove it by hand");
  }
  auto text = sys::read_text(file);
  if (!text) return Failure(text.error());
  auto value = api::parse_json(*text);
  if (!value) return with_context("read " + file, value.error());
  auto record = from_json(*value);
  if (!record) return with_context("read " + file, record.error());
  return *record;
}

Result<void> write_record(const std::filesystem::path& directory, const ServiceRecord& record) {
  return sys::replace_file(file_of(directory), json::serialize(to_json(record)));
}

Result<UniqueFd> lock_service(const std::filesystem::path& directory, const std::function<void()>& waiting) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0) return sys::from_errno("open " + directory.string(), errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return sys::from_errno("lock " + directory.string(), errno);
    waiting();
    while (::flock(fd.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return sys::from_errno("lock " + directory.string(), errno);
    }
  }
  struct stat held{};
  struct stat named{};
  if (::fstat(fd.get(), &held) != 0 || ::lstat(directory.c_str(), &named) != 0 || held.st_dev != named.st_dev ||
      held.st_ino != named.st_ino) {
    return fail(Code::NotFound, directory.string() + " was removed by another osb");
  }
  return fd;
}

}  // namespace osb::cli
