#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "image/digest.h"
#include "image/layer_unpacker.h"
#include "image/reference.h"

namespace osb::image {

// An image that the store knows by name.
struct ImageRecord {
  std::string name;              // Reference::to_string()
  Digest manifest;               // of the manifest for our platform, or of the configuration where there is none
  std::string config;            // the image's configuration, as it came
  std::vector<Digest> diff_ids;  // lowest layer first
  std::int64_t created = 0;      // when it was recorded here: seconds since 1970
  bool local = false;            // from an archive or a directory: it cannot be fetched again
};

struct LayerStoreOptions {
  // For tests: called with the name of each step that has just been done, without a lock held.
  std::function<void(std::string_view step)> after_step;
};

// Unpacked layers on disk, one copy of each shared by all images, and the names of images made of them.
//
//   layers/<diff id>/root   the tree, a lower directory for overlayfs
//   layers/<diff id>/layer.json
//   images/<sha256 of the name>.json
//   tmp/                    what is being made or removed; emptied by open()
//   lock                    held by the process that uses the store
//
// A layer is built in tmp/, synced and renamed: everything in layers/ is complete, also after a power cut. All calls
// block and may come from any thread. The directory belongs to root alone (0700).
class LayerStore {
  struct State;

 public:
  // Keeps a layer from being collected. Copies share it; a lease may outlive the store.
  class Lease {
   public:
    const Digest& diff_id() const { return diff_id_; }
    const std::filesystem::path& root() const { return root_; }
    std::uint64_t bytes() const { return bytes_; }

   private:
    friend class LayerStore;
    Lease(std::shared_ptr<State> state, const Digest& diff_id, std::filesystem::path root, std::uint64_t bytes);
    Digest diff_id_;
    std::filesystem::path root_;
    std::uint64_t bytes_;
    std::shared_ptr<void> hold_;
  };

  // Makes the directory if needed and clears away what a crash left. Code::Conflict if another process has it.
  static Result<std::unique_ptr<LayerStore>> open(std::filesystem::path directory, LayerStoreOptions options = {});
  ~LayerStore();

  // The layer, if it is there.
  std::optional<Lease> find(const Digest& diff_id);

  // The layer, unpacked now if it is not there. Of several callers for one layer one does the work (its `source` is
  // asked for), the others wait; if it fails, the next one tries. `source` runs without a lock held.
  using OpenSource = std::move_only_function<Result<ByteSource>()>;
  Result<Lease> ensure(const Digest& diff_id, OpenSource source, UnpackOptions options = {});
  // A layer whose diff id shows only when it is unpacked (root directories, snapshots): known by it afterwards.
  Result<Lease> add(ByteSource source, UnpackOptions options = {});

  // Records an image under its name, replacing what had it. Code::NotFound if one of its layers is missing. Durable
  // when it returns.
  Result<void> record(const ImageRecord& image);
  Result<ImageRecord> image(const Reference& name) const;  // Code::NotFound
  std::vector<ImageRecord> images() const;                 // by name
  // The layers stay until the next collection. Code::NotFound.
  Result<void> remove(const Reference& name);

  // A directory inside tmp/ for a download, removed with the returned object (and by the next open()).
  class Scratch {
   public:
    explicit Scratch(std::filesystem::path path) : path_(std::move(path)) {}
    Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    Scratch& operator=(Scratch&&) = delete;
    ~Scratch();
    const std::filesystem::path& path() const { return path_; }

   private:
    std::filesystem::path path_;
  };
  Result<Scratch> scratch();

  struct LayerInfo {
    std::uint64_t bytes = 0;
    std::uint64_t leases = 0;
    std::int64_t last_used = 0;  // when it was last asked for: seconds since 1970
  };
  std::optional<LayerInfo> about(const Digest& diff_id) const;

  struct Usage {
    std::uint64_t layers = 0;
    std::uint64_t bytes = 0;
    std::uint64_t unused_layers = 0;  // of no image, lease or `in_use`
    std::uint64_t unused_bytes = 0;
  };
  Usage usage(const std::set<Digest>& in_use = {}) const;

  struct Collected {
    std::uint64_t layers = 0;
    std::uint64_t bytes = 0;
  };
  // Removes layers that no image and no lease needs and that are not in `in_use` (sandboxes that outlived a restart),
  // least recently used first, until the store holds at most `keep_bytes`.
  Result<Collected> collect(const std::set<Digest>& in_use, std::uint64_t keep_bytes = 0);

 private:
  explicit LayerStore(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace osb::image
