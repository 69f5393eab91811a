#include "sandboxd/egress/overlay_files.h"

#include <filesystem>
#include <sys/inotify.h>

#include <boost/asio/this_coro.hpp>

#include "base/log.h"
#include "sys/syscall.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

constexpr const char* kDeny = "/deny.always";
constexpr const char* kAllow = "/allow.always";

Result<std::string> read_file(const std::string& path) {
  auto text = sys::read_text(path);
  if (!text && text.error().code == Code::NotFound) return std::string();
  return text;
}

Result<UniqueFd> watch_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return sys::from_errno("inotify_init", errno);
  constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
  if (::inotify_add_watch(fd.get(), directory.c_str(), kEvents) < 0)
    return sys::from_errno("watch " + directory, errno);
  return fd;
}

}  // namespace

Result<OverlayFiles::Loaded> OverlayFiles::load() const {
  Loaded out;
  const auto read = [&](const char* name, policy::Action action, std::string& text,
                        std::vector<policy::Rule>& rules) -> Result<void> {
    const std::string path = directory_ + name;
    auto content = read_file(path);
    if (!content) return Failure(content.error());
    // An address of a collector that is no rule concerns sandboxd alone.
    const bool named = action == policy::Action::Allow && !collector_.empty();
    if (named && policy::parse_overlay(collector_, action)) *content += "\n" + collector_ + "\n";
    auto parsed = policy::parse_overlay(*content, action);
    if (!parsed) return with_context(path, parsed.error());
    text = std::move(*content);
    rules = std::move(*parsed);
    return {};
  };
  if (auto done = read(kDeny, policy::Action::Deny, out.texts.deny, out.overlays.deny); !done)
    return Failure(done.error());
  if (auto done = read(kAllow, policy::Action::Allow, out.texts.allow, out.overlays.allow); !done)
    return Failure(done.error());
  return out;
}

net::awaitable<void> OverlayFiles::watch(std::function<void()> changed) {
  auto fd = watch_directory(directory_);
  auto opened = fd ? Descriptor::open(co_await net::this_coro::executor, std::move(*fd))
                   : Result<Descriptor>(Failure(fd.error()));
  if (!opened) {
    log_error("rules of the operator are not watched: restart sandboxd after changes",
              {{"directory", directory_}, {"error", opened.error().message}});
    co_return;
  }
  changed();  // the files may have changed since they were loaded
  char events[4096];
  for (;;) {
    if (auto got = co_await opened->read_some(events); !got) co_return;
    changed();
  }
}

}  // namespace osb::sandboxd
