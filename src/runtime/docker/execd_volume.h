#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/docker/docker_context.h"
#include "runtime/docker/images.h"

namespace osb::runtime {

// A file of the engine's host that appears read-only in a container.
struct FileMount {
  std::string source, target;
};

// Provides execd and bootstrap.sh to containers. Mounted as two files: the directory that they appear in stays the
// container's own, because bootstrap writes there.
//
// From a directory of the engine's host if that was configured. Otherwise from a volume, filled once per version of the
// execd image: a container is made of the image (it never runs), and its files are copied. The volume's own directory
// is what gets mounted, so this also works where the engine is not on this machine and the server could not put a file
// anywhere.
class ExecdVolume {
 public:
  ExecdVolume(DockerContext& context, Images& images)
      : context_(context), engine_(context.engine), images_(images), image_(context.options.execd_image) {}

  // The first caller does the work, later callers wait. DOCKER::SANDBOX_EXECD_START_FAILED and its companions.
  net::awaitable<Result<std::vector<FileMount>>> mounts(std::optional<api::Platform> platform, Interest interest);
  // Whether a volume of this name may hold execd; "" is a volume of any name.
  static bool may_be(std::string_view volume);
  // Its volume may be gone: the next caller checks, and stages it again if so.
  void forget() { staged_.clear(); }

 private:
  struct Staged {
    explicit Staged(net::any_io_executor executor) : done(std::move(executor)) {}
    Event done;
    Result<std::vector<FileMount>> mounts = fail(Code::Internal, "execd was not staged");
  };
  net::awaitable<Result<std::vector<FileMount>>> make_mounts(std::optional<api::Platform> platform, Interest interest);
  net::awaitable<void> remove_forgotten();
  net::awaitable<void> remove_helper(std::string name);
  net::awaitable<Result<void>> fill(std::string image_id, std::string volume);
  net::awaitable<Result<void>> copy_by_helper(std::string image_id, std::string volume);
  net::awaitable<Result<void>> copy_files(std::string container);

  DockerContext& context_;
  EngineClient& engine_;
  Images& images_;
  const std::string& image_;
  std::map<std::string, std::shared_ptr<Staged>> staged_;  // by platform
  std::vector<std::string> stranded_;                      // helpers that the engine could not be told to remove
};

}  // namespace osb::runtime
