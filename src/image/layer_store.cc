#include "image/layer_store.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "api/json.h"
#include "base/id.h"
#include "base/timespec.h"
#include "image/manifest.h"
#include "sys/file_lock.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "sys/write_all.h"

namespace osb::image {

namespace {

namespace fs = std::filesystem;
using api::ObjectReader;

Failure from_code(const std::string& what, const std::error_code& failed) {
  return sys::from_errno(what, failed.value());
}

Result<void> make_directory(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return from_code("mkdir " + path.string(), failed);
  return {};
}

// Renames and new names become durable with their directory.
Result<void> sync_directory(const fs::path& path) {
  const auto fd = sys::open_at(AT_FDCWD, path.string(), O_RDONLY | O_DIRECTORY);
  if (!fd) return Failure(fd.error());
  if (::fsync(fd->get()) < 0) return sys::from_errno("fsync " + path.string(), errno);
  return {};
}

Result<void> write_synced(const fs::path& path, std::string_view text) {
  const auto fd = sys::open_at(AT_FDCWD, path.string(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!fd) return Failure(fd.error());
  if (auto wrote = sys::write_all(fd->get(), text, path.string()); !wrote) return wrote;
  if (::fsync(fd->get()) < 0) return sys::from_errno("fsync " + path.string(), errno);
  return {};
}

Result<void> move_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) < 0) return sys::from_errno("rename to " + to.string(), errno);
  return sync_directory(to.parent_path());
}

std::string encode(const ImageRecord& image) {
  api::json::array layers;
  for (const Digest& id : image.diff_ids) layers.emplace_back(id.to_string());
  return api::json::serialize(api::json::value{{"name", image.name},
                                               {"manifest", image.manifest.to_string()},
                                               {"config", image.config},
                                               {"layers", std::move(layers)},
                                               {"created", image.created},
                                               {"local", image.local}});
}

Result<ImageRecord> decode(std::string_view text) {
  auto value = api::parse_json(text);
  if (!value) return Failure(value.error());
  ObjectReader in(*value, {});
  std::string name = in.required_string("name");
  const std::string manifest = in.required_string("manifest");
  std::string config = in.required_string("config");
  const auto layers = in.string_list("layers").value_or(std::vector<std::string>());
  const std::int64_t created = in.required_int64("created");
  const bool local = in.optional_bool("local").value_or(false);
  if (auto done = in.finish(); !done) return Failure(done.error());
  const auto digest = Digest::parse(manifest);
  if (!digest) return Failure(digest.error());
  ImageRecord out{std::move(name), *digest, std::move(config), {}, created, local};
  for (const std::string& layer : layers) {
    const auto id = Digest::parse(layer);
    if (!id) return Failure(id.error());
    out.diff_ids.push_back(*id);
  }
  return out;
}

}  // namespace

struct LayerStore::State {
  struct Layer {
    std::uint64_t bytes = 0;
    std::uint64_t leases = 0;
    timespec used{};
    std::time_t noted = 0;  // when `used` was last written to the file
  };

  fs::path directory;
  LayerStoreOptions options;
  UniqueFd lock;
  std::mutex names;  // held while a name is written or removed, which waits for the disk; taken before `mutex`
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<Digest, Layer> layers;
  std::set<Digest> in_work;  // being unpacked or removed
  std::map<std::string, ImageRecord> images;

  fs::path layer_path(const Digest& id) const { return directory / "layers" / id.hex(); }
  fs::path record_path(const std::string& name) const {
    return directory / "images" / (Digest::of(name).hex() + ".json");
  }
  fs::path new_temporary() const { return directory / "tmp" / new_hex_id(); }

  Result<void> load();
  Result<void> load_layer(const fs::path& path);
  std::set<Digest> referenced(const std::set<Digest>& in_use) const;
  static Lease lease(const std::shared_ptr<State>& state, const Digest& id);
  Result<std::pair<Digest, std::uint64_t>> build(const fs::path& temporary, ByteSource source,
                                                 const UnpackOptions& options);
  // Makes a built layer visible, and leased at once: a collection may come right after. With `mutex` not held, for an
  // id in `in_work`.
  static Result<Lease> publish(const std::shared_ptr<State>& state, const fs::path& temporary, const Digest& id,
                               std::uint64_t bytes);

  // Takes an id that the caller has put into `in_work` out again, also when an exception passes. `mutex` not held.
  struct Work {
    State& state;
    const Digest& id;
    ~Work() {
      const std::lock_guard lock(state.mutex);
      state.in_work.erase(id);
      state.changed.notify_all();
    }
  };
};

// --- opening -----------------------------------------------------------------------------------------------------

Result<void> LayerStore::State::load_layer(const fs::path& path) {
  const auto id = Digest::from_hex(path.filename().string());
  if (!id) return {};  // not ours
  auto text = sys::read_text((path / "layer.json").string(), 1 << 16);
  if (!text) return Failure(text.error());
  auto value = api::parse_json(*text);
  if (!value) return with_context(path.string(), value.error());
  ObjectReader in(*value, {});
  const std::int64_t bytes = in.required_int64("bytes", 0);
  if (auto done = in.finish(); !done) return with_context(path.string(), done.error());
  struct stat st;
  if (::stat((path / "layer.json").c_str(), &st) < 0) return sys::from_errno("stat " + path.string(), errno);
  layers[*id] = {static_cast<std::uint64_t>(bytes), 0, st.st_mtim};
  return {};
}

Result<void> LayerStore::State::load() {
  for (const char* name : {"layers", "images", "tmp"}) {
    if (auto made = make_directory(directory / name); !made) return made;
  }
  if (::chmod(directory.c_str(), 0700) < 0) return sys::from_errno("chmod " + directory.string(), errno);
  auto held = sys::lock_file((directory / "lock").string());
  if (!held && held.error().code == Code::Conflict) {
    return fail(Code::Conflict, directory.string() + ": another process uses this store");
  }
  if (!held) return Failure(held.error());
  lock = std::move(*held);

  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory / "tmp", failed)) {
    std::error_code removed;
    fs::remove_all(entry.path(), removed);
    if (removed) return from_code("remove " + entry.path().string(), removed);
  }
  if (failed) return from_code("read " + directory.string() + "/tmp", failed);
  for (const auto& entry : fs::directory_iterator(directory / "layers", failed)) {
    if (auto loaded = load_layer(entry.path()); !loaded) return loaded;
  }
  if (failed) return from_code("read " + directory.string() + "/layers", failed);
  for (const auto& entry : fs::directory_iterator(directory / "images", failed)) {
    auto text = sys::read_text(entry.path().string(), 4 * kMaxConfigBytes);
    if (!text) return Failure(text.error());
    auto image = decode(*text);
    if (!image) return with_context(entry.path().string(), image.error());
    images.insert_or_assign(image->name, std::move(*image));
  }
  if (failed) return from_code("read " + directory.string() + "/images", failed);
  return {};
}

Result<std::unique_ptr<LayerStore>> LayerStore::open(std::filesystem::path directory, LayerStoreOptions options) {
  auto state = std::make_shared<State>();
  state->directory = std::move(directory);
  state->options = std::move(options);
  if (auto loaded = state->load(); !loaded) return with_context("layer store", loaded.error());
  return std::unique_ptr<LayerStore>(new LayerStore(std::move(state)));
}

LayerStore::LayerStore(std::shared_ptr<State> state) : state_(std::move(state)) {}
LayerStore::~LayerStore() { state_->lock.reset(); }

// --- layers ------------------------------------------------------------------------------------------------------

LayerStore::Lease::Lease(std::shared_ptr<State> state, const Digest& diff_id, std::filesystem::path root,
                         std::uint64_t bytes)
    : diff_id_(diff_id), root_(std::move(root)), bytes_(bytes) {
  hold_ = std::shared_ptr<void>(state.get(), [state, diff_id](void*) {
    const std::lock_guard lock(state->mutex);
    --state->layers.at(diff_id).leases;
  });
}

// With the mutex held, for a layer that is there. Its file's time says across restarts, to the minute, when it was last
// wanted.
LayerStore::Lease LayerStore::State::lease(const std::shared_ptr<State>& state, const Digest& id) {
  Layer& layer = state->layers.at(id);
  ++layer.leases;
  layer.used = timespec_now();
  if (layer.used.tv_sec < layer.noted || layer.used.tv_sec - layer.noted >= 60) {
    const timespec times[2] = {layer.used, layer.used};
    (void)::utimensat(AT_FDCWD, (state->layer_path(id) / "layer.json").c_str(), times, 0);
    layer.noted = layer.used.tv_sec;
  }
  return Lease(state, id, state->layer_path(id) / "root", layer.bytes);
}

std::optional<LayerStore::Lease> LayerStore::find(const Digest& diff_id) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->layers.contains(diff_id)) return std::nullopt;
  return State::lease(state_, diff_id);
}

Result<std::pair<Digest, std::uint64_t>> LayerStore::State::build(const fs::path& temporary, ByteSource source,
                                                                  const UnpackOptions& options) {
  if (auto made = make_directory(temporary / "root"); !made) return Failure(made.error());
  const auto root = sys::open_at(AT_FDCWD, (temporary / "root").string(), O_RDONLY | O_DIRECTORY);
  if (!root) return Failure(root.error());
  if (::fchmod(root->get(), 0755) < 0) return sys::from_errno("chmod " + temporary.string(), errno);
  const auto unpacked = unpack_layer(std::move(source), root->get(), options);
  if (!unpacked) return Failure(unpacked.error());
  const std::string about =
      api::json::serialize(api::json::value{{"bytes", unpacked->bytes}, {"digest", unpacked->digest.to_string()}});
  if (auto wrote = write_synced(temporary / "layer.json", about); !wrote) return Failure(wrote.error());
  // One call instead of an fsync for each of thousands of files.
  if (::syncfs(root->get()) < 0) return sys::from_errno("sync " + temporary.string(), errno);
  return std::pair(unpacked->diff_id, unpacked->bytes);
}

Result<LayerStore::Lease> LayerStore::State::publish(const std::shared_ptr<State>& state, const fs::path& temporary,
                                                     const Digest& id, std::uint64_t bytes) {
  if (auto renamed = move_durably(temporary, state->layer_path(id)); !renamed) return Failure(renamed.error());
  Lease leased = [&] {
    const std::lock_guard guard(state->mutex);
    state->layers[id] = {bytes, 0, {}};
    return lease(state, id);
  }();
  if (state->options.after_step) state->options.after_step("layer published");
  return leased;
}

Result<LayerStore::Lease> LayerStore::ensure(const Digest& diff_id, OpenSource source, UnpackOptions options) {
  State& s = *state_;
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !s.in_work.contains(diff_id); });
    if (s.layers.contains(diff_id)) return State::lease(state_, diff_id);
    s.in_work.insert(diff_id);
  }
  const State::Work work{s, diff_id};
  options.diff_id = diff_id;
  auto done = [&]() -> Result<Lease> {
    auto made = scratch();
    if (!made) return Failure(made.error());
    auto bytes = source();
    if (!bytes) return Failure(bytes.error());
    auto built = s.build(made->path() / "layer", std::move(*bytes), options);
    if (!built) return Failure(built.error());
    return State::publish(state_, made->path() / "layer", diff_id, built->second);
  }();
  if (!done) return with_context("layer " + diff_id.to_string(), done.error());
  return done;
}

Result<LayerStore::Lease> LayerStore::add(ByteSource source, UnpackOptions options) {
  State& s = *state_;
  auto made = scratch();
  if (!made) return Failure(made.error());
  const fs::path temporary = made->path() / "layer";
  auto built = s.build(temporary, std::move(source), options);
  if (!built) return Failure(built.error());
  const Digest id = built->first;
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !s.in_work.contains(id); });
    if (s.layers.contains(id)) return State::lease(state_, id);
    s.in_work.insert(id);
  }
  const State::Work work{s, id};
  return State::publish(state_, temporary, id, built->second);
}

LayerStore::Scratch::~Scratch() {
  if (path_.empty()) return;
  std::error_code ignored;  // open() tries again
  fs::remove_all(path_, ignored);
}

Result<LayerStore::Scratch> LayerStore::scratch() {
  fs::path path = state_->new_temporary();
  if (::mkdir(path.c_str(), 0700) < 0) return sys::from_errno("mkdir " + path.string(), errno);
  return Scratch(std::move(path));
}

// --- images ------------------------------------------------------------------------------------------------------

Result<void> LayerStore::record(const ImageRecord& image) {
  auto name = Reference::parse(image.name);
  if (!name) return Failure(name.error());
  if (name->to_string() != image.name)
    return fail(Code::InvalidRequest, "image: record " + name->to_string() + " instead");
  const std::lock_guard names(state_->names);
  std::vector<Lease> held;  // nothing may go while we write
  for (const Digest& id : image.diff_ids) {
    auto layer = find(id);
    if (!layer)
      return fail(Code::NotFound, "image " + image.name + ": layer " + id.to_string() + " is not in the store");
    held.push_back(std::move(*layer));
  }
  const fs::path temporary = state_->new_temporary();
  auto done = write_synced(temporary, encode(image));
  if (done) done = move_durably(temporary, state_->record_path(image.name));
  if (!done) {
    (void)::unlink(temporary.c_str());
    return with_context("image " + image.name, done.error());
  }
  const std::lock_guard lock(state_->mutex);
  state_->images.insert_or_assign(image.name, image);
  return {};
}

Result<ImageRecord> LayerStore::image(const Reference& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->images.find(name.to_string());
  if (it == state_->images.end()) return fail(Code::NotFound, "image " + name.familiar() + " is not in the store");
  return it->second;
}

std::vector<ImageRecord> LayerStore::images() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<ImageRecord> out;
  for (const auto& [name, image] : state_->images) out.push_back(image);
  return out;
}

Result<void> LayerStore::remove(const Reference& name) {
  const std::lock_guard names(state_->names);
  const auto there = image(name);
  if (!there) return Failure(there.error());
  const fs::path path = state_->record_path(there->name);
  if (::unlink(path.c_str()) < 0 && errno != ENOENT) return sys::from_errno("remove " + path.string(), errno);
  {
    const std::lock_guard lock(state_->mutex);
    state_->images.erase(there->name);
  }
  return sync_directory(path.parent_path());
}

// --- accounting and collection -----------------------------------------------------------------------------------

std::set<Digest> LayerStore::State::referenced(const std::set<Digest>& in_use) const {
  std::set<Digest> out = in_use;
  for (const auto& [name, image] : images) out.insert(image.diff_ids.begin(), image.diff_ids.end());
  for (const auto& [id, layer] : layers) {
    if (layer.leases > 0) out.insert(id);
  }
  return out;
}

std::optional<LayerStore::LayerInfo> LayerStore::about(const Digest& diff_id) const {
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->layers.find(diff_id);
  if (it == state_->layers.end()) return std::nullopt;
  return LayerInfo{it->second.bytes, it->second.leases, it->second.used.tv_sec};
}

LayerStore::Usage LayerStore::usage(const std::set<Digest>& in_use) const {
  const std::lock_guard lock(state_->mutex);
  const std::set<Digest> needed = state_->referenced(in_use);
  Usage out;
  for (const auto& [id, layer] : state_->layers) {
    ++out.layers;
    out.bytes += layer.bytes;
    if (needed.contains(id)) continue;
    ++out.unused_layers;
    out.unused_bytes += layer.bytes;
  }
  return out;
}

Result<LayerStore::Collected> LayerStore::collect(const std::set<Digest>& in_use, std::uint64_t keep_bytes) {
  State& s = *state_;
  auto doomed = scratch();
  if (!doomed) return Failure(doomed.error());
  Collected out;
  {
    // Out of sight under the lock, which is quick; deleted below without it.
    const std::lock_guard lock(s.mutex);
    const std::set<Digest> needed = s.referenced(in_use);
    std::uint64_t total = 0;
    std::vector<std::pair<timespec, Digest>> unused;
    for (const auto& [id, layer] : s.layers) {
      total += layer.bytes;
      if (!needed.contains(id)) unused.emplace_back(layer.used, id);
    }
    std::ranges::sort(unused, [](const auto& a, const auto& b) {
      return std::tie(a.first.tv_sec, a.first.tv_nsec, a.second) < std::tie(b.first.tv_sec, b.first.tv_nsec, b.second);
    });
    for (const auto& [used, id] : unused) {
      if (total <= keep_bytes) break;
      if (::rename(s.layer_path(id).c_str(), (doomed->path() / id.hex()).c_str()) < 0) {
        return sys::from_errno("remove layer " + id.to_string(), errno);
      }
      const std::uint64_t bytes = s.layers.at(id).bytes;
      s.layers.erase(id);
      total -= bytes;
      out.bytes += bytes;
      ++out.layers;
    }
  }
  std::error_code failed;
  fs::remove_all(doomed->path(), failed);
  if (failed) return from_code("remove " + doomed->path().string(), failed);
  return out;
}

}  // namespace osb::image
