#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/native.h"
#include "async/blocking_pool.h"
#include "async/net.h"
#include "async/task_group.h"
#include "async/timer.h"
#include "http/body.h"
#include "http/client.h"
#include "image/image_exporter.h"
#include "image/image_importer.h"
#include "image/layer_store.h"
#include "image/puller.h"
#include "image/registry_rules.h"
#include "sys/disk_reserve.h"

namespace osb::sandboxd {

// The image that is the host's own userland. Its root is made by the launch code; nothing is downloaded or stored.
inline constexpr std::string_view kHostImage = "host";

using api::native::PullPolicy;

using RegistryAuth = std::optional<image::Credentials>;                       // absent: anonymous
using PullProgressHandler = std::function<void(const image::PullProgress&)>;  // on the executor; must not throw

// Archives come and go at their peer's speed, each on a thread of ImageService's pool.
struct TransferLimits {
  // At a time. Separate limits, so that downloads of archives do not block uploads of images that users wait for.
  std::size_t loads = 2;
  std::size_t sends = 4;
  std::chrono::milliseconds wait = std::chrono::seconds(30);  // for a permit, when all are taken
  // A peer may keep us waiting for this long, and earns more with every byte up to that again. Without it a few that
  // move a byte now and then would hold all permits.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
  std::uint64_t bytes_per_second = 32 << 10;
};

struct ImageServiceConfig {
  std::filesystem::path directory;  // of the store: <state>/images
  // add_directory takes only these directories and those below them. Empty: none.
  std::vector<std::filesystem::path> allowed_directories;
  image::RegistryRules registries;
  // Authorities trusted besides the system's, in PEM.
  std::filesystem::path ca_file;
  // The size of the store above which unused layers, and then unused images from registries, are removed.
  std::uint64_t keep_bytes = std::uint64_t{50} << 30;
  image::Platform platform = image::host_platform();
  TransferLimits transfers;
  // Pulls and loads that begin below it are refused. A large one that reaches it ends.
  sys::DiskReserve reserve;
  // For tests: called with the name of each step of the store that has just been done.
  std::function<void(std::string_view step)> after_step;
};

// The base of a sandbox: layers of an image, or the host.
struct ResolvedImage {
  enum class Kind { Layers, Host };
  Kind kind = Kind::Layers;
  std::string name;                              // complete: "docker.io/library/debian:latest", or "host"
  image::ImageConfig config;                     // env, entrypoint, cmd, user, working_dir, ...
  std::vector<image::LayerStore::Lease> layers;  // top first, as overlayfs wants them; empty for the host
};

struct ImageInfo {
  std::string name;  // complete
  std::string familiar;
  image::Digest id;            // of its manifest
  std::uint64_t bytes = 0;     // of all its layers, also those shared with others
  std::int64_t created = 0;    // when it came here; seconds since 1970
  std::int64_t last_used = 0;  // when its top layer was last asked for
  bool in_use = false;         // by a sandbox, or by a pull that has just ended
};

// Images by name, for the daemon, which must ignore SIGPIPE. Lives on one executor. Blocking work goes to a pool of its
// own: unpacking takes seconds, and sandboxes must not wait for it.
//
// Errors: NotFound (names the image, or says for which platforms it exists), Unauthorized and Forbidden as the registry
// says, InvalidRequest for content that is damaged, cut off, too slow or not what its digest says, TooLarge, Conflict,
// Cancelled, Exhausted where too many archives are on their way, Unavailable for what may work later: a registry that
// does not answer, "no space left in <directory>". A failure leaves nothing behind but whole layers, which the next
// attempt finds and collection removes.
class ImageService {
 public:
  // Blocks for as long as it takes to read the store's records. Code::Conflict if another process has it.
  static Result<std::unique_ptr<ImageService>> open(net::any_io_executor executor, ImageServiceConfig config);
  ~ImageService();
  // Awaited before the object goes: ends pulls and loads (Code::Cancelled).
  net::awaitable<void> close();

  // The image, pulled if the policy says so. Calls for one image with the same credentials share one pull and its
  // progress; a cancelled waiter does not affect the others. A pull without waiters goes on, so that the next call
  // finds the image. With Always, an image that is in the store is not used if the registry fails.
  net::awaitable<Result<ResolvedImage>> ensure(std::string name, PullPolicy policy, RegistryAuth auth,
                                               PullProgressHandler progress = nullptr);

  // A pull to look at while it runs: for each layer the latest state, so that a slow reader costs no memory.
  class Pull {
   public:
    ~Pull();
    // The next state of some layer, nothing when the pull has ended (then ask result()). Code::Cancelled.
    net::awaitable<Result<std::optional<image::PullProgress>>> next();
    // After next() has returned nothing.
    Result<ImageInfo> result() const;

   private:
    friend class ImageService;
    struct State;
    explicit Pull(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
  };
  // Always asks the registry. A name that cannot be read is an error at once.
  Result<std::unique_ptr<Pull>> pull(const std::string& name, RegistryAuth auth);

  // Images out of a `docker save` or OCI archive; under `name`, if given, else under the archive's own names. `body`
  // must outlive the call.
  net::awaitable<Result<std::vector<ImageInfo>>> load(http::BodySource& body, std::optional<std::string> name);
  // The same from an open file, read from where it stands.
  net::awaitable<Result<std::vector<ImageInfo>>> load(UniqueFd file, std::optional<std::string> name);

  // A root directory as an image of one layer, copied as it is now. Code::Forbidden outside the allowed directories;
  // symbolic links are resolved before that is decided.
  net::awaitable<Result<ImageInfo>> add_directory(std::filesystem::path path, std::string name);

  // The right to send one archive. It is given back when the archive has been sent or the permit goes; the service
  // outlives it. Code::Exhausted: none came free in time. Take it before the head of a response is sent: after that
  // the client cannot be told about a refusal.
  using TransferPermit = std::shared_ptr<void>;
  net::awaitable<Result<TransferPermit>> send_permit();

  // Writes the image as an archive into `body`. Without a permit it takes one.
  net::awaitable<Result<void>> save(std::string name, http::BodyWriter& body, TransferPermit permit = nullptr);

  // Sends the output of `write`, run on a pool thread, to `body` as fast as that takes it. `what` is for messages.
  using ArchiveWriter = std::move_only_function<Result<void>(image::ByteSink)>;
  net::awaitable<Result<void>> send_archive(std::string what, ArchiveWriter write, http::BodyWriter& body,
                                            TransferPermit permit = nullptr);

  // Layers again for a sandbox that outlived the daemon, in the order given. Code::NotFound names the first one
  // missing. Call it for all of them before anything that collects (pull, remove).
  Result<std::vector<image::LayerStore::Lease>> lease(const std::vector<image::Digest>& diff_ids);

  std::vector<ImageInfo> list() const;                       // by name
  Result<ImageInfo> inspect(const std::string& name) const;  // Code::NotFound
  // Forgets the name; unused layers are removed later. Code::NotFound, and Code::Conflict where a sandbox uses the
  // image and no other name has it, unless forced.
  net::awaitable<Result<void>> remove(std::string name, bool force);
  // Down to `keep_bytes`, or as far as possible: unused layers, then images from registries, least recently used first.
  // Runs by itself after pulls, loads and removals.
  net::awaitable<Result<image::LayerStore::Collected>> collect(std::uint64_t keep_bytes);

  // For what makes layers by itself (snapshots).
  image::LayerStore& store() { return *store_; }

 private:
  struct Flight;
  struct Transfer;
  struct TransferEnd;
  ImageService(net::any_io_executor executor, ImageServiceConfig config, std::unique_ptr<image::LayerStore> store,
               std::unique_ptr<http::Client> client);

  std::shared_ptr<Flight> join_or_start(const image::Reference& reference, RegistryAuth auth);
  net::awaitable<void> fly(std::shared_ptr<Flight> flight);
  Result<ResolvedImage> resolve(const image::ImageRecord& record);
  ImageInfo info(const image::ImageRecord& record) const;
  Error explain(Error error) const;
  void collect_later();
  net::awaitable<void> run_collections();

  Result<image::ImportOptions> import_options(const std::optional<std::string>& name) const;
  net::awaitable<Result<std::vector<ImageInfo>>> import(image::ByteSource source, image::ImportOptions options);
  net::awaitable<void> run_import(std::shared_ptr<Transfer> transfer, image::ImportOptions options);
  net::awaitable<void> run_export(std::shared_ptr<Transfer> transfer, ArchiveWriter write);
  net::awaitable<Result<TransferPermit>> take_permit(std::size_t& taken, std::size_t most, std::string what);
  Result<std::shared_ptr<Transfer>> begin_transfer(TransferPermit permit, bool incoming);
  void end_transfers();

  net::any_io_executor executor_;
  const ImageServiceConfig config_;
  std::unique_ptr<image::LayerStore> store_;
  std::unique_ptr<http::Client> client_;
  BlockingPool pool_;
  image::Puller puller_;
  TaskGroup tasks_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;  // by name and credentials
  std::set<Transfer*> transfers_;
  std::size_t loads_ = 0, sends_ = 0;  // permits that are taken
  Notifier permit_free_;
  bool closed_ = false;
  bool collecting_ = false, collect_again_ = false;
};

}  // namespace osb::sandboxd
