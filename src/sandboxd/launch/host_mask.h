#pragma once

#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"
#include "base/unique_fd.h"

namespace osb::sandboxd {

// Layers with this in their name hold only /usr, for the overlay of /usr alone.
inline constexpr std::string_view kUsrMask = "usr-mask-";

// Hides from `host` sandboxes those parts of the host's /usr that users without rights cannot read there. Root of a
// sandbox owns the host's files in an overlay, so their modes alone do not keep it out.
//
// A mask is a layer between the host's /usr and the sandbox's own: whiteouts for files that others may not read and
// directories that others may not read and enter, empty directories for file systems that are mounted below /usr. All
// of /usr is looked through once, in a thread of its own from the start on. Later changes are noticed by inotify in
// directories down to kWatchedDepth and in the package database, and looked at before the next sandbox is made. A
// directory deeper down that is closed by hand is noticed at the next start of the daemon.
//
// Masks stay until the next boot: under a running sandbox, a mask that goes would uncover what it hides.
class HostMask {
 public:
  static constexpr std::uint32_t kWatchedDepth = 2;

  // Masks are made in `parent`, under names that begin with `prefix` and kUsrMask and follow from what they hide. `usr`
  // is /usr but in tests; `packages` is the directory of the package database and need not exist.
  HostMask(std::string parent, std::string prefix, std::string usr = "/usr", std::string packages = "/var/lib/dpkg");
  ~HostMask();

  // The mask for a sandbox that is made now; "" when nothing is hidden. Blocks; any thread.
  Result<std::string> layer();

 private:
  Result<void> first_look();
  Result<void> look_below(const std::string& path);  // relative to usr; "" is all of it
  Result<void> note_changes();
  bool is_below_hidden(const std::string& path) const;
  void watch(const std::string& path);
  Result<void> make();
  Result<void> fill(const std::string& directory) const;
  Result<void> add(int layer, const std::string& path) const;

  const std::string parent_, prefix_, usr_, packages_;
  std::mutex mutex_;  // what follows
  std::future<Result<void>> first_;
  UniqueFd inotify_;
  std::map<int, std::string> watched_;  // relative to usr
  int packages_watch_ = -1;
  std::set<std::string> hidden_;  // relative to usr; mount points end in '/'
  bool dirty_ = true;             // hidden_ is not what the layer hides
  std::set<std::string> masked_;  // by `layer_`
  std::string layer_;
};

}  // namespace osb::sandboxd
