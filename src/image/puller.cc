#include "image/puller.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sys/syscall.h"

namespace osb::image {

// One pull. Shared with its workers, which may see its end later than the caller does.
struct Puller::Job {
  Job(net::any_io_executor executor, RegistryClient c, ResolvedImage i, PullOptions o)
      : client(std::move(c)), image(std::move(i)), options(std::move(o)), finished(std::move(executor)) {
    leases.resize(image.manifest.layers.size());
  }
  bool over() const { return abandoned || error.has_value(); }
  void tell(std::size_t index, PullProgress::Stage stage, std::uint64_t bytes) const {
    if (!options.progress || abandoned) return;
    options.progress({image.config.diff_ids[index], stage, bytes, image.manifest.layers[index].size});
  }

  RegistryClient client;
  const ResolvedImage image;
  const PullOptions options;
  std::vector<std::optional<LayerStore::Lease>> leases;
  std::size_t next = 0;  // layer
  std::size_t workers = 0;
  std::optional<Error> error;
  bool abandoned = false;
  Event finished;
};

Puller::Puller(net::any_io_executor executor, http::Client& client, BlockingPool& pool, LayerStore& store)
    : executor_(executor), client_(client), pool_(pool), store_(store), tasks_(executor), changed_(executor) {}

net::awaitable<Result<LayerStore::Lease>> Puller::fetch(std::shared_ptr<Job> job, std::size_t index) {
  auto scratch = store_.scratch();
  if (!scratch) co_return Failure(scratch.error());
  auto lease = co_await fetch_into(scratch->path() / "blob", std::move(job), index);
  // A layer's worth of blocks to free: not on the loop.
  co_await pool_.run([&] { const LayerStore::Scratch gone = std::move(*scratch); });
  co_return lease;
}

net::awaitable<Result<LayerStore::Lease>> Puller::fetch_into(std::filesystem::path file, std::shared_ptr<Job> job,
                                                             std::size_t index) {
  const Descriptor& blob = job->image.manifest.layers[index];
  const Digest& id = job->image.config.diff_ids[index];
  auto downloaded = co_await job->client.download(
      blob, file, [job, index](std::uint64_t bytes) { job->tell(index, PullProgress::Stage::Downloading, bytes); });
  if (!downloaded) co_return Failure(downloaded.error());
  job->tell(index, PullProgress::Stage::Unpacking, blob.size);
  UnpackOptions unpack = job->options.unpack;
  unpack.digest = blob.digest;
  co_return co_await pool_.run([&]() -> Result<LayerStore::Lease> {
    UniqueFd opened;
    return store_.ensure(
        id,
        [&]() -> Result<ByteSource> {
          auto fd = sys::open_at(AT_FDCWD, file.string(), O_RDONLY);
          if (!fd) return Failure(fd.error());
          opened = std::move(*fd);
          return read_descriptor(opened.get());
        },
        unpack);
  });
}

net::awaitable<Result<LayerStore::Lease>> Puller::layer(std::shared_ptr<Job> job, std::size_t index) {
  const Digest id = job->image.config.diff_ids[index];
  while (in_work_.contains(id)) {
    if (!co_await changed_.wait()) co_return fail(Code::Cancelled, "pull: cancelled");
  }
  if (auto there = store_.find(id)) co_return std::move(*there);
  // Also when the frame is destroyed in the middle.
  struct Mark {
    Puller& puller;
    const Digest& id;
    Mark(Puller& p, const Digest& i) : puller(p), id(i) { puller.in_work_.insert(id); }
    ~Mark() {
      puller.in_work_.erase(id);
      puller.changed_.notify_all();
    }
  } const mark(*this, id);
  if (job->options.admit) {
    if (auto admitted = job->options.admit(); !admitted) co_return Failure(admitted.error());
  }
  co_return co_await fetch(job, index);
}

net::awaitable<void> Puller::work(std::shared_ptr<Job> job) {
  struct Leave {
    Job& job;
    ~Leave() {
      if (--job.workers == 0) job.finished.set();
    }
  } const leave(*job);
  while (!job->over() && job->next < job->leases.size()) {
    const std::size_t index = job->next++;
    auto lease = co_await layer(job, index);
    if (!lease) {
      if (!job->error) job->error = lease.error();
      break;
    }
    job->leases[index] = std::move(*lease);
    job->tell(index, PullProgress::Stage::Done, job->image.manifest.layers[index].size);
  }
}

net::awaitable<Result<ImageRecord>> Puller::pull(Reference reference, PullOptions options) {
  RegistryClient client(client_, pool_, reference, options.access);
  auto image = co_await client.resolve(options.platform);
  if (!image) co_return with_context("pull", image.error());
  if (closed_) co_return fail(Code::Cancelled, "pull " + reference.familiar() + ": cancelled");
  const auto job = std::make_shared<Job>(executor_, std::move(client), std::move(*image), std::move(options));
  struct Abandon {
    Job& job;
    ~Abandon() { job.abandoned = true; }
  } const abandon(*job);
  job->workers = std::clamp<std::size_t>(job->options.parallel, 1, 16);
  for (std::size_t i = 0, count = job->workers; i < count; ++i) tasks_.spawn("pull " + reference.familiar(), work(job));
  if (!co_await job->finished.wait()) co_return fail(Code::Cancelled, "pull " + reference.familiar() + ": cancelled");
  if (job->error) co_return with_context("pull " + reference.familiar(), *job->error);
  const bool whole = std::ranges::all_of(job->leases, [](const auto& lease) { return lease.has_value(); });
  if (!whole) co_return fail(Code::Cancelled, "pull " + reference.familiar() + ": cancelled");
  ImageRecord record{reference.to_string(),      job->image.digest,    job->image.config_text,
                     job->image.config.diff_ids, unix_millis() / 1000, false};
  auto recorded = co_await pool_.run([&] { return store_.record(record); });
  if (!recorded) co_return Failure(recorded.error());
  co_return record;
}

}  // namespace osb::image
