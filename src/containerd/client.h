#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/net.h"
#include "base/error.h"
#include "containerd/grpc_channel.h"
#include "containerd/messages.h"
#include "http/body.h"

namespace osb::containerd {

inline constexpr const char* kSocket = "/var/run/containerd/containerd.sock";
// The namespace of containerd that the kubelet's containers and images are in.
inline constexpr const char* kKubernetes = "k8s.io";

// containerd's API (1.5 and newer), in one of its namespaces. Errors have containerd's text and name the thing:
// NotFound, Conflict for a thing that exists, Unavailable when containerd does not answer, Unsupported for what it
// cannot do. Arguments of coroutines are kept by them. Lives on one executor.
class Client {
 public:
  Client(net::any_io_executor executor, std::string socket, std::string ns = kKubernetes);

  // Everything that later calls make is kept by this lease, and goes with it unless something else refers to it.
  void use_lease(std::string id) { lease_ = std::move(id); }

  // `filters`: a container has to meet one of them, such as `labels."key"=="value"`.
  net::awaitable<Result<std::vector<Container>>> containers(std::vector<std::string> filters);
  // NotFound: the container has no process.
  net::awaitable<Result<TaskStatus>> task(std::string container);
  net::awaitable<Result<void>> pause(std::string container);
  net::awaitable<Result<void>> resume(std::string container);

  net::awaitable<Result<SnapshotInfo>> snapshot(std::string snapshotter, std::string key);
  net::awaitable<Result<std::vector<Mount>>> mounts(std::string snapshotter, std::string key);
  // A snapshot `key` that shows `parent` and cannot be written to.
  net::awaitable<Result<std::vector<Mount>>> view(std::string snapshotter, std::string key, std::string parent);
  net::awaitable<Result<void>> remove_snapshot(std::string snapshotter, std::string key);
  // Writes what `right` has changed against `left` as a layer into the content store. Takes as long as it takes.
  net::awaitable<Result<image::Descriptor>> diff(std::vector<Mount> left, std::vector<Mount> right,
                                                 std::string media_type);

  net::awaitable<Result<BlobInfo>> blob(image::Digest digest);
  // A whole blob; TooLarge beyond `limit`. What was read has the digest.
  net::awaitable<Result<std::string>> read_blob(image::Digest digest, std::size_t limit);
  // The same piece by piece, not checked. The client outlives the source.
  std::shared_ptr<http::BodySource> open_blob(const image::Descriptor& blob);
  // Success also if the blob is there.
  net::awaitable<Result<void>> write_blob(std::string bytes, Labels labels);

  net::awaitable<Result<ImageName>> image(std::string name);
  net::awaitable<Result<std::vector<ImageName>>> images();
  // Makes the name, or lets it stand for another image from now on.
  net::awaitable<Result<void>> set_image(ImageName image);

  net::awaitable<Result<void>> create_lease(std::string id, std::chrono::seconds lifetime);
  // Removes also what nothing else refers to. NotFound is success.
  net::awaitable<Result<void>> remove_lease(std::string id);

  // Ends the connection. Await it before the object goes.
  net::awaitable<void> close() { return channel_.close(); }

 private:
  class BlobSource;

  http::Headers metadata() const;
  net::awaitable<Result<std::string>> call(std::string service, std::string method, std::string request);
  net::awaitable<Result<std::string>> call_unlimited(std::string service, std::string method, std::string request);
  // A call that gives nothing back; `what` is for errors.
  net::awaitable<Result<void>> order(std::string service, std::string method, std::string request, std::string what);

  GrpcChannel channel_;
  const std::string socket_, ns_;
  std::string lease_;
};

}  // namespace osb::containerd
