#include "server/store/sqlite_store.h"

#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/store/batch.h"
#include "server/store/commit_thread.h"
#include "server/store/schema.h"

namespace osb::server {
namespace {

class SqliteStore final : public Store {
 public:
  SqliteStore(std::unique_ptr<Database> database, RecordWriter writer, const RecordIndex::Changes& loaded)
      : commits_(std::move(database), std::move(writer), index_) {
    index_.apply(loaded);
  }

  using Store::find;
  using Store::find_snapshot;
  using Store::find_template;
  SandboxPtr find(std::string_view id) const override { return index_.find(id); }
  Page<SandboxPtr> list(const api::SandboxQuery& query, const Scope& scope) const override {
    return index_.list(query, scope);
  }
  std::vector<SandboxPtr> all() const override { return index_.all(); }
  std::size_t size() const override { return index_.size(); }
  std::optional<Timestamp> next_deadline() const override { return index_.next_deadline(); }
  std::vector<SandboxPtr> due(Timestamp running) const override { return index_.due(running); }
  std::vector<std::string> removals() const override { return index_.removals(); }

  net::awaitable<Result<Created>> create(SandboxRecord record, std::optional<IdempotencyKey> key,
                                         bool unique_name) override {
    return change<Created>([record = std::move(record), key = std::move(key), unique_name](Batch& batch) {
      return decide::create(batch, record, key, unique_name);
    });
  }

  Result<std::optional<Created>> find_key(std::string_view key, std::string_view fingerprint,
                                          Timestamp now) const override {
    const auto known = index_.find_key_and_record(key);
    if (!known || known->key.created_at + kKeyLifetime <= now) return std::nullopt;
    auto repeat = repeat_of(known->key, fingerprint, known->record);
    if (!repeat) return Failure(repeat.error());
    return std::move(*repeat);
  }

  net::awaitable<Result<SandboxPtr>> patch_metadata(std::string id, api::MetadataPatch patch) override {
    return change<SandboxPtr>([id = std::move(id), patch = std::move(patch)](Batch& batch) {
      return decide::patch_metadata(batch, id, patch);
    });
  }

  net::awaitable<Result<SandboxPtr>> renew(std::string id, Timestamp until, Moment now) override {
    return change<SandboxPtr>(
        [id = std::move(id), until, now](Batch& batch) { return decide::renew(batch, id, until, now); });
  }

  net::awaitable<Result<SandboxPtr>> extend(std::string id, Moment now) override {
    return change<SandboxPtr>([id = std::move(id), now](Batch& batch) { return decide::extend(batch, id, now); });
  }

  net::awaitable<Result<std::optional<SandboxPtr>>> expire_if_due(std::string id, Timestamp running) override {
    return change<std::optional<SandboxPtr>>(
        [id = std::move(id), running](Batch& batch) { return decide::expire_if_due(batch, id, running); });
  }

  net::awaitable<Result<SandboxPtr>> begin_remove(std::string id, std::string free_key) override {
    return change<SandboxPtr>(
        [id = std::move(id), key = std::move(free_key)](Batch& batch) { return decide::begin_remove(batch, id, key); });
  }

  void forget(std::string_view id) override {
    if (index_.forget(id)) commits_.forget_soon(std::string(id));
  }

  Result<SandboxPtr> change_status(std::string_view id, std::initializer_list<std::string_view> from,
                                   api::Status to) override {
    auto changed = index_.change_status(id, from, std::move(to));
    if (changed) commits_.write_status_soon(std::string(id));
    return changed;
  }

  net::awaitable<Result<void>> flush() override {
    return change<void>([](Batch&) { return Result<void>(); }, Extra::Flush);
  }
  net::awaitable<Result<void>> probe() override {
    return change<void>([](Batch&) { return Result<void>(); }, Extra::Probe);
  }

  SnapshotPtr find_snapshot(std::string_view id) const override { return index_.find_snapshot(id); }
  Page<SnapshotPtr> list_snapshots(const api::SnapshotQuery& query, const Scope& scope) const override {
    return index_.list_snapshots(query, scope);
  }
  std::vector<SnapshotPtr> all_snapshots() const override { return index_.all_snapshots(); }

  net::awaitable<Result<void>> create_snapshot(SnapshotRecord record) override {
    return change<void>([record = std::move(record)](Batch& batch) { return decide::create_snapshot(batch, record); });
  }

  net::awaitable<Result<SnapshotPtr>> change_snapshot(std::string id, std::vector<std::string> from, api::Status to,
                                                      std::optional<std::string> restore_config) override {
    return change<SnapshotPtr>([id = std::move(id), from = std::move(from), to = std::move(to),
                                config = std::move(restore_config)](Batch& batch) {
      return decide::change_snapshot(batch, id, from, to, config);
    });
  }

  net::awaitable<Result<void>> erase_snapshot(std::string id) override {
    return change<void>([id = std::move(id)](Batch& batch) { return decide::erase_snapshot(batch, id); });
  }

  TemplatePtr find_template(std::string_view id) const override { return index_.find_template(id); }
  Page<TemplatePtr> list_templates(const api::TemplateQuery& query, const Scope& scope) const override {
    return index_.list_templates(query, scope);
  }
  std::vector<TemplatePtr> all_templates() const override { return index_.all_templates(); }

  net::awaitable<Result<void>> create_template(TemplateRecord record) override {
    return change<void>([record = std::move(record)](Batch& batch) { return decide::create_template(batch, record); });
  }

  net::awaitable<Result<TemplatePtr>> change_template(std::string id, std::vector<std::string_view> from,
                                                      TemplateChange to) override {
    return change<TemplatePtr>([id = std::move(id), from = std::move(from), to = std::move(to)](Batch& batch) {
      return decide::change_template(batch, id, from, to);
    });
  }

  net::awaitable<Result<void>> erase_template(std::string id) override {
    return change<void>([id = std::move(id)](Batch& batch) { return decide::erase_template(batch, id); });
  }

 private:
  enum class Extra { None, Flush, Probe };

  // Queues the decision and resumes with its outcome once that is durable. The outcome is shared with the writer, which
  // may still be at it when a loop goes away with this coroutine.
  template <typename T>
  net::awaitable<Result<T>> change(std::function<Result<T>(Batch&)> decision, Extra extra = Extra::None) {
    auto outcome = std::make_shared<Result<T>>(fail(Code::Internal, "the store did not decide"));
    co_await net::async_initiate<const net::use_awaitable_t<>, void()>(
        [this, outcome, extra](auto handler, std::function<Result<T>(Batch&)> decide) {
          auto home = net::make_work_guard(net::get_associated_executor(handler));
          commits_.submit(
              {[outcome, decide = std::move(decide)](Batch& batch) { *outcome = decide(batch); },
               [outcome, handler = std::move(handler), home = std::move(home)](std::optional<Error> error) mutable {
                 if (error) *outcome = Failure(std::move(*error));
                 net::post(home.get_executor(), std::move(handler));
               },
               extra != Extra::None, extra == Extra::Probe});
        },
        net::use_awaitable, std::move(decision));
    co_return std::move(*outcome);
  }

  RecordIndex index_;
  CommitThread commits_;  // last: its thread uses the index
};

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteOptions& options) {
  auto database = Database::open(options.path, options.busy_wait);
  if (!database) return Failure(database.error());
  if (auto prepared = prepare_schema(**database); !prepared) return Failure(prepared.error());
  const auto loaded = load_records(**database);
  if (!loaded) return Failure(loaded.error());
  auto writer = RecordWriter::prepare(**database);
  if (!writer) return Failure(writer.error());
  return std::make_unique<SqliteStore>(std::move(*database), std::move(*writer), *loaded);
}

}  // namespace osb::server
