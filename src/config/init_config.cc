#include "config/init_config.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/unique_fd.h"
#include "config/init_config_examples.h"
#include "config/settings.h"

namespace osb::config {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"native", "docker", "docker-zh", "k8s", "k8s-zh"};

Failure failed(std::string_view doing, const std::filesystem::path& path, int e) {
  const Code code = e == EEXIST ? Code::Conflict : Code::Internal;
  return Failure(Error(code, std::string(doing) + " " + path.string() + ": " + std::generic_category().message(e), e));
}

Result<void> write_all(int fd, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return failed("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (::fsync(fd) != 0) return failed("write", path, errno);
  return {};
}

}  // namespace

std::span<const std::string_view> example_names() { return kNames; }

Result<std::string> example_config(std::string_view name) {
  if (name.empty()) {
    return example_file(
        "OpenSandbox server: every key with its default. \"\" means not set. The variable SANDBOX_CONFIG_PATH names "
        "this "
        "file.",
        server_settings());
  }
  if (std::string text = make_example(name); !text.empty()) return text;
  return fail(Code::NotFound, "no example of that name; there are native, docker, docker-zh, k8s and k8s-zh");
}

std::string settings_page() {
  return reference_page(R"(# Settings of opensandbox-server

The keys of its TOML file ([server.md](server.md)). `opensandbox-server init-config` writes them all with their defaults.
An unknown key or section stops the start, and so does a key of a part that this server does not have; the error names
file, line, section, key and the nearest known key (`[server] unknown_keys = "warn"`: the log names unknown ones). A key
that means nothing to the backend in use is a warning, or an error where it is about security. A reload (`SIGHUP`,
`systemctl reload`) takes over the keys with "yes"; the log names other changed keys, which need a restart.

`scripts/settings` makes this page from the declarations in `src/config`.
)",
                        server_settings(), true);
}

Result<void> write_example_config(const std::filesystem::path& path, std::string_view example, bool force) {
  const auto text = example_config(example);
  if (!text) return Failure(text.error());
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) return failed("make the directory of", path, error.value());
  // Written beside it and put in place whole. link() refuses what exists, rename() replaces it.
  std::string temporary = path.string() + ".XXXXXX";
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (file.get() < 0) return failed("write", path, errno);
  auto done = write_all(file.get(), *text, path);
  if (done) {
    const int moved = force ? ::rename(temporary.c_str(), path.c_str()) : ::link(temporary.c_str(), path.c_str());
    if (moved != 0) {
      done = errno == EEXIST ? Result<void>(fail(Code::Conflict, path.string() + " exists; --force replaces it"))
                             : Result<void>(failed("write", path, errno));
    }
  }
  ::unlink(temporary.c_str());
  return done;
}

}  // namespace osb::config
