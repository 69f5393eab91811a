#include "sandboxd/image/image_service.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>

#include "base/log.h"
#include "sys/text_file.h"
#include "tls/connector.h"

namespace osb::sandboxd {

namespace {

using image::Digest;
using image::ImageRecord;
using image::LayerStore;
using image::PullProgress;
using image::Reference;

constexpr std::size_t kThreadsForPulls = 4;
constexpr std::size_t kMaxCaBytes = 4 << 20;
constexpr const char* kSystemRoots = "/etc/ssl/certs/ca-certificates.crt";
constexpr const char* kHostPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Failure cancelled(const std::string& name) { return fail(Code::Cancelled, "image " + name + ": cancelled"); }

Result<std::shared_ptr<const tls::ClientContext>> make_context(const ImageServiceConfig& config) {
  if (config.ca_file.empty()) return nullptr;
  auto own = sys::read_text(config.ca_file.string(), kMaxCaBytes);
  if (!own) return with_context("certificate authorities", own.error());
  tls::ClientOptions options;
  options.ca_pem = std::move(*own);
  if (std::filesystem::exists(kSystemRoots)) options.ca_file = kSystemRoots;
  return tls::ClientContext::make(options);
}

}  // namespace

// One pull and all its watchers. Its result is there when `done` is set.
struct ImageService::Flight {
  struct Watcher {
    PullProgressHandler progress;
    std::function<void()> ended;
  };

  Flight(net::any_io_executor executor, std::string k, Reference r, RegistryAuth a)
      : key(std::move(k)), reference(std::move(r)), auth(std::move(a)), done(std::move(executor)) {}

  void tell(const PullProgress& progress) {
    latest.insert_or_assign(progress.layer, progress);
    for (const Watcher& watcher : watchers) {
      if (watcher.progress) watcher.progress(progress);
    }
  }
  void end(Result<ResolvedImage> with) {
    result = std::move(with);
    done.set();
    for (const Watcher& watcher : watchers) {
      if (watcher.ended) watcher.ended();
    }
  }

  const std::string key;
  const Reference reference;
  const RegistryAuth auth;
  std::list<Watcher> watchers;
  std::map<Digest, PullProgress> latest;  // for later watchers
  std::optional<Result<ResolvedImage>> result;
  ImageInfo info;
  Event done;
};

namespace {

// Watches for as long as it lives; starts with what has happened so far.
template <typename Flight>
class Watch {
 public:
  Watch(std::shared_ptr<Flight> flight, PullProgressHandler progress, std::function<void()> ended = nullptr)
      : flight_(std::move(flight)) {
    if (progress) {
      for (const auto& [layer, state] : flight_->latest) progress(state);
    }
    at_ = flight_->watchers.insert(flight_->watchers.end(), {std::move(progress), std::move(ended)});
  }
  ~Watch() { flight_->watchers.erase(at_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Flight& flight() const { return *flight_; }

 private:
  std::shared_ptr<Flight> flight_;
  decltype(Flight::watchers)::iterator at_;
};

}  // namespace

Result<std::unique_ptr<ImageService>> ImageService::open(net::any_io_executor executor, ImageServiceConfig config) {
  auto context = make_context(config);
  if (!context) return Failure(context.error());
  auto store = LayerStore::open(config.directory, {.after_step = config.after_step});
  if (!store) return Failure(store.error());
  auto guard = [rules = config.registries](const http::Url& origin, const std::string& address) {
    return rules.check(origin, address);
  };
  auto client = std::make_unique<http::Client>(tls::make_connector(executor, std::move(*context), std::move(guard)));
  return std::unique_ptr<ImageService>(
      new ImageService(executor, std::move(config), std::move(*store), std::move(client)));
}

ImageService::ImageService(net::any_io_executor executor, ImageServiceConfig config, std::unique_ptr<LayerStore> store,
                           std::unique_ptr<http::Client> client)
    : executor_(executor),
      config_(std::move(config)),
      store_(std::move(store)),
      client_(std::move(client)),
      pool_(config_.transfers.loads + config_.transfers.sends + kThreadsForPulls),
      puller_(executor, *client_, pool_, *store_),
      tasks_(executor),
      permit_free_(executor) {}

ImageService::~ImageService() = default;

net::awaitable<void> ImageService::close() {
  closed_ = true;
  end_transfers();
  co_await tasks_.close();
  co_await puller_.close();
  client_->clear();
}

Error ImageService::explain(Error error) const {
  if (error.sys_errno == ENOSPC || error.sys_errno == EDQUOT) {
    return {Code::Unavailable, "no space left in " + config_.directory.string() + ": " + error.message,
            error.sys_errno};
  }
  return error;
}

// --- ensure and pull ---------------------------------------------------------------------------------------------

Result<ResolvedImage> ImageService::resolve(const ImageRecord& record) {
  auto config = image::decode_image_config(record.config);
  if (!config) return with_context("image " + record.name, config.error());
  ResolvedImage out{ResolvedImage::Kind::Layers, record.name, std::move(*config), {}};
  auto layers = lease(record.diff_ids);
  if (!layers) return with_context("image " + record.name, layers.error());
  std::ranges::reverse(*layers);
  out.layers = std::move(*layers);
  return out;
}

Result<std::vector<LayerStore::Lease>> ImageService::lease(const std::vector<Digest>& diff_ids) {
  std::vector<LayerStore::Lease> out;
  out.reserve(diff_ids.size());
  for (const Digest& id : diff_ids) {
    auto layer = store_->find(id);
    if (!layer) return fail(Code::NotFound, "layer " + id.to_string() + " is not in the store");
    out.push_back(std::move(*layer));
  }
  return out;
}

std::shared_ptr<ImageService::Flight> ImageService::join_or_start(const Reference& reference, RegistryAuth auth) {
  // A caller without credentials must not profit from a pull with another caller's credentials.
  std::string key = reference.to_string() + '\0';
  if (auth) key += auth->username + '\0' + auth->password;
  if (const auto it = flights_.find(key); it != flights_.end()) return it->second;
  auto flight = std::make_shared<Flight>(executor_, key, reference, std::move(auth));
  if (closed_) {
    flight->end(cancelled(reference.familiar()));
    return flight;
  }
  flights_.emplace(std::move(key), flight);
  tasks_.spawn("pull " + reference.familiar(), fly(flight));
  return flight;
}

net::awaitable<void> ImageService::fly(std::shared_ptr<Flight> flight) {
  // Also when the loop stops or an exception passes: no caller may wait for a flight that is gone.
  struct Landing {
    ImageService& service;
    Flight& flight;
    Result<ResolvedImage> result;
    ~Landing() {
      service.flights_.erase(flight.key);
      flight.end(std::move(result));
    }
  } landing{*this, *flight, cancelled(flight->reference.familiar())};

  image::PullOptions options;
  options.access.credentials = flight->auth;
  if (const auto origin = http::Url::parse("https://" + flight->reference.registry_host())) {
    options.access.plain_http = config_.registries.may_be_plain(*origin);
    options.access.explain_failures = config_.registries.lists(*origin);
  }
  options.platform = config_.platform;
  options.progress = [flight = flight.get()](const PullProgress& progress) { flight->tell(progress); };
  options.admit = [this] { return config_.reserve.check(); };
  auto record = co_await puller_.pull(flight->reference, std::move(options));
  if (!record) {
    landing.result = Failure(explain(record.error()));
    co_return;
  }
  landing.result = resolve(*record);
  flight->info = info(*record);
  collect_later();
}

net::awaitable<Result<ResolvedImage>> ImageService::ensure(std::string name, PullPolicy policy, RegistryAuth auth,
                                                           PullProgressHandler progress) {
  if (name == kHostImage) {
    ResolvedImage host;
    host.kind = ResolvedImage::Kind::Host;
    host.name = kHostImage;
    host.config.platform = config_.platform;
    host.config.env = {kHostPath};
    host.config.cmd = {"/bin/sh"};
    host.config.working_dir = "/";
    co_return host;
  }
  const auto reference = Reference::parse(name);
  if (!reference) co_return Failure(reference.error());
  if (policy != PullPolicy::Always) {
    if (const auto record = store_->image(*reference)) {
      auto resolved = resolve(*record);
      if (resolved || policy == PullPolicy::Never) co_return resolved;
      log_warn("image is incomplete, pulling it again", {{"image", reference->familiar()}});
    }
    if (policy == PullPolicy::Never) {
      co_return fail(Code::NotFound,
                     "image " + reference->familiar() + " is not in the store, and the pull policy is never");
    }
  }
  const Watch<Flight> watch(join_or_start(*reference, std::move(auth)), std::move(progress));
  if (!watch.flight().result && !co_await watch.flight().done.wait()) co_return cancelled(reference->familiar());
  co_return *watch.flight().result;
}

struct ImageService::Pull::State {
  State(net::any_io_executor executor, std::shared_ptr<Flight> flight)
      : changed(executor),
        watch(std::move(flight), [this](const PullProgress& p) { add(p); }, [this] { changed.notify_all(); }) {}
  void add(const PullProgress& progress) {
    if (latest.insert_or_assign(progress.layer, progress).second) order.push_back(progress.layer);
    changed.notify_all();
  }

  std::map<Digest, PullProgress> latest;  // not told yet
  std::deque<Digest> order;
  Notifier changed;
  Watch<Flight> watch;
};

ImageService::Pull::Pull(std::shared_ptr<State> state) : state_(std::move(state)) {}
ImageService::Pull::~Pull() = default;

net::awaitable<Result<std::optional<PullProgress>>> ImageService::Pull::next() {
  State& s = *state_;
  while (s.order.empty()) {
    if (s.watch.flight().result) co_return std::optional<PullProgress>();
    if (!co_await s.changed.wait()) co_return cancelled(s.watch.flight().reference.familiar());
  }
  const Digest layer = s.order.front();
  s.order.pop_front();
  co_return s.latest.extract(layer).mapped();
}

Result<ImageInfo> ImageService::Pull::result() const {
  const Flight& flight = state_->watch.flight();
  if (!flight.result) return fail(Code::Internal, "image " + flight.reference.familiar() + ": the pull still runs");
  if (!*flight.result) return Failure(flight.result->error());
  return flight.info;
}

Result<std::unique_ptr<ImageService::Pull>> ImageService::pull(const std::string& name, RegistryAuth auth) {
  if (name == kHostImage) return fail(Code::InvalidRequest, "image host is this machine itself: nothing to pull");
  const auto reference = Reference::parse(name);
  if (!reference) return Failure(reference.error());
  return std::unique_ptr<Pull>(
      new Pull(std::make_shared<Pull::State>(executor_, join_or_start(*reference, std::move(auth)))));
}

// --- names and collection ----------------------------------------------------------------------------------------

ImageInfo ImageService::info(const ImageRecord& record) const {
  ImageInfo out;
  out.name = record.name;
  const auto reference = Reference::parse(record.name);
  out.familiar = reference ? reference->familiar() : record.name;
  out.id = record.manifest;
  out.created = record.created;
  for (const Digest& id : record.diff_ids) {
    const auto layer = store_->about(id);
    if (!layer) continue;
    out.bytes += layer->bytes;
    // The top layer is what tells an image from others built on the same base.
    out.last_used = layer->last_used;
    out.in_use = layer->leases > 0;
  }
  return out;
}

std::vector<ImageInfo> ImageService::list() const {
  std::vector<ImageInfo> out;
  for (const ImageRecord& record : store_->images()) out.push_back(info(record));
  return out;
}

Result<ImageInfo> ImageService::inspect(const std::string& name) const {
  const auto reference = Reference::parse(name);
  if (!reference) return Failure(reference.error());
  const auto record = store_->image(*reference);
  if (!record) return Failure(record.error());
  return info(*record);
}

net::awaitable<Result<void>> ImageService::remove(std::string name, bool force) {
  const auto reference = Reference::parse(name);
  if (!reference) co_return Failure(reference.error());
  const auto record = store_->image(*reference);
  if (!record) co_return Failure(record.error());
  if (!force && info(*record).in_use) {
    const bool other = std::ranges::any_of(store_->images(), [&](const ImageRecord& image) {
      return image.name != record->name && image.diff_ids == record->diff_ids;
    });
    if (!other) {
      co_return fail(Code::Conflict,
                     "image " + reference->familiar() + " is in use; remove its sandboxes, or force it");
    }
  }
  auto removed = co_await pool_.run([&] { return store_->remove(*reference); });
  if (!removed) co_return Failure(explain(removed.error()));
  collect_later();
  co_return Result<void>();
}

net::awaitable<Result<LayerStore::Collected>> ImageService::collect(std::uint64_t keep_bytes) {
  co_return co_await pool_.run([&]() -> Result<LayerStore::Collected> {
    LayerStore::Collected total;
    for (;;) {
      auto collected = store_->collect({}, keep_bytes);
      if (!collected) return collected;
      total.layers += collected->layers;
      total.bytes += collected->bytes;
      if (store_->usage().bytes <= keep_bytes) return total;
      // Images that can be pulled again go next; archives and directories stay until a user removes them.
      std::optional<ImageInfo> oldest;
      for (const ImageRecord& record : store_->images()) {
        ImageInfo candidate = info(record);
        if (record.local || candidate.in_use) continue;
        if (!oldest || candidate.last_used < oldest->last_used) oldest = std::move(candidate);
      }
      if (!oldest) return total;
      const auto name = Reference::parse(oldest->name);
      if (!name) return Failure(name.error());
      auto removed = store_->remove(*name);
      if (!removed && removed.error().code != Code::NotFound) return Failure(removed.error());
      log_info("image forgotten to make room", {{"image", oldest->familiar}});
    }
  });
}

void ImageService::collect_later() {
  collect_again_ = true;
  if (collecting_ || closed_) return;
  collecting_ = true;
  tasks_.spawn("collect images", run_collections());
}

net::awaitable<void> ImageService::run_collections() {
  struct Over {
    bool& collecting;
    ~Over() { collecting = false; }
  } const over{collecting_};
  while (std::exchange(collect_again_, false)) {
    const auto collected = co_await collect(config_.keep_bytes);
    if (!collected) {
      log_error("collect images", {{"error", collected.error().message}});
    } else if (collected->layers > 0) {
      log_info("layers removed", {{"layers", collected->layers}, {"bytes", collected->bytes}});
    }
  }
}

}  // namespace osb::sandboxd
