#include "cli/local/service_record.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "sys/process_tree.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::cli {
namespace {

namespace json = boost::json;

std::filesystem::path file_of(const std::filesystem::path& directory) { return directory / "service.json"; }

json::value to_json(const std::optional<DaemonProcess>& process) {
  if (!process) return nullptr;
  return json::object{{"pid", process->pid}, {"start", process->start}};
}

void read_process_of(api::ObjectReader& reader, std::string_view name, std::optional<DaemonProcess>& out) {
  reader.object(name, [&](api::ObjectReader& process) {
    out = DaemonProcess{static_cast<pid_t>(process.required_int64("pid", 1)),
                        static_cast<std::uint64_t>(process.required_int64("start", 0))};
  });
}

}  // namespace

bool DaemonProcess::alive() const {
  const auto process = sys::read_process(pid);
  return process && process->alive && process->start == start;
}

Result<std::optional<ServiceRecord>> read_record(const std::filesystem::path& directory) {
  const std::string file = file_of(directory);
  struct stat st{};
  if (::lstat(file.c_str(), &st) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return sys::from_errno("look at " + file, errno);
  }
  // It says which processes to end: nobody else may have written it.
  if (!S_ISREG(st.st_mode) || st.st_uid != ::geteuid() || (st.st_mode & 022) != 0) {
    return fail(Code::Forbidden, file + " does not belong to this user alone; remove it by hand");
  }
  auto text = sys::read_text(file);
  if (!text) return Failure(text.error());
  auto value = api::parse_json(*text);
  if (!value) return with_context("read " + file, value.error());
  ServiceRecord out;
  api::ObjectReader reader(*value, {});
  out.port = static_cast<std::uint16_t>(reader.required_int64("port", 1, 65535));
  out.key = reader.required_string("key");
  out.cgroup_parent = reader.required_string("cgroup_parent");
  out.table = reader.required_string("table");
  read_process_of(reader, "sandboxd", out.sandboxd);
  read_process_of(reader, "server", out.server);
  if (auto ok = reader.finish(); !ok) return with_context("read " + file, ok.error());
  return out;
}

Result<void> write_record(const std::filesystem::path& directory, const ServiceRecord& record) {
  const std::string file = file_of(directory), next = file + ".new";
  const std::string text = json::serialize(json::object{{"port", record.port},
                                                        {"key", record.key},
                                                        {"cgroup_parent", record.cgroup_parent},
                                                        {"table", record.table},
                                                        {"sandboxd", to_json(record.sandboxd)},
                                                        {"server", to_json(record.server)}});
  (void)::unlink(next.c_str());
  const UniqueFd out(::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (out.get() < 0) return sys::from_errno("write " + next, errno);
  const ssize_t written = ::write(out.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()))
    return sys::from_errno("write " + next, written < 0 ? errno : ENOSPC);
  if (::rename(next.c_str(), file.c_str()) != 0) return sys::from_errno("write " + file, errno);
  return {};
}

Result<UniqueFd> lock_service(const std::filesystem::path& directory) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0) return sys::from_errno("open " + directory.string(), errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return sys::from_errno("lock " + directory.string(), errno);
    return fail(Code::Conflict, "another osb is starting or stopping the service in " + directory.string());
  }
  return fd;
}

}  // namespace osb::cli
