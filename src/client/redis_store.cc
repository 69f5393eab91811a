#include <charconv>
#include <mutex>
#include <opensandbox/pool_redis.h>

#include "client/errors.h"
#include "client/redis_connection.h"

namespace opensandbox {
namespace {

using std::chrono::milliseconds;

// The scripts. KEYS: idle:list, idle:expires, and what else they name. Times are epoch milliseconds of Redis itself.
constexpr std::string_view kNow =
    "local t = redis.call('TIME') local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000) ";

constexpr std::string_view kTake = R"(
local discarded = {}
while true do
  local id = redis.call('LPOP', KEYS[1])
  if not id then return {false, discarded} end
  local expires = redis.call('HGET', KEYS[2], id)
  if expires then
    redis.call('HDEL', KEYS[2], id)
    local left = tonumber(expires) - now
    if left > tonumber(ARGV[1]) and left > 0 then return {id, discarded} end
    if left > 0 then table.insert(discarded, id) end
  end
end)";

constexpr std::string_view kPut = R"(
local expires = redis.call('HGET', KEYS[2], ARGV[1])
if expires and tonumber(expires) > now then return 0 end
if expires then redis.call('LREM', KEYS[1], 0, ARGV[1]) end
local ttl = tonumber(redis.call('GET', KEYS[3]) or '86400000')
redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', now + ttl))
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1)";

constexpr std::string_view kRemove = R"(
redis.call('LREM', KEYS[1], 0, ARGV[1])
return redis.call('HDEL', KEYS[2], ARGV[1]))";

constexpr std::string_view kReap = R"(
local alive = {}
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local left = tonumber(all[i + 1]) - now
  if left <= tonumber(ARGV[1]) then
    redis.call('LREM', KEYS[1], 0, all[i])
    redis.call('HDEL', KEYS[2], all[i])
    if left > 0 then table.insert(alive, all[i]) end
  end
end
return alive)";

constexpr std::string_view kEntries = R"(
local out = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local expires = redis.call('HGET', KEYS[2], id)
  if expires then
    table.insert(out, id)
    table.insert(out, expires)
  end
end
return out)";

constexpr std::string_view kLock = R"(
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1)";

constexpr std::string_view kRenew = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1)";

constexpr std::string_view kRelease = R"(
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0)";

std::string base64url(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  std::uint32_t value = 0;
  int bits = 0;
  for (const char c : bytes) {
    value = value << 8 | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 6; bits -= 6) out += kDigits[value >> (bits - 6) & 63];
  }
  if (bits > 0) out += kDigits[value << (6 - bits) & 63];
  return out;
}

std::vector<std::string> texts_of(const osb::redis::Reply& value) {
  std::vector<std::string> out;
  for (const osb::redis::Reply& item : value.items) out.push_back(item.text);
  return out;
}

template <typename Number>
Number number_in(const std::string& text) {
  Number out{};
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

class RedisStore final : public PoolStateStore {
 public:
  RedisStore(osb::redis::Address address, const RedisOptions& options)
      : connection_(std::move(address), options.timeout), prefix_(options.key_prefix) {}

  Result<Taken> take_idle(const std::string& pool, milliseconds min_remaining_ttl) override {
    auto answer = idle_script(kTake, pool, std::to_string(min_remaining_ttl.count()));
    if (!answer) return Failure(std::move(answer.error()));
    Taken out;
    if (answer->items.size() != 2) return odd();
    if (answer->items[0].kind == osb::redis::Reply::Kind::Text) out.sandbox_id = answer->items[0].text;
    out.discarded = texts_of(answer->items[1]);
    return out;
  }

  Result<void> put_idle(const std::string& pool, const std::string& id) override {
    return done(idle_script(kPut, pool, id));
  }
  Result<void> remove_idle(const std::string& pool, const std::string& id) override {
    return done(idle_script(kRemove, pool, id));
  }
  Result<std::vector<std::string>> reap_idle(const std::string& pool, milliseconds min_remaining_ttl) override {
    auto answer = idle_script(kReap, pool, std::to_string(min_remaining_ttl.count()));
    if (!answer) return Failure(std::move(answer.error()));
    return texts_of(*answer);
  }
  Result<std::int64_t> idle_count(const std::string& pool) override {
    auto answer = call({"HLEN", key(pool, "idle:expires")});
    if (!answer) return Failure(std::move(answer.error()));
    return answer->number;
  }
  Result<std::vector<IdleEntry>> idle_entries(const std::string& pool) override {
    auto answer = idle_script(kEntries, pool, "");
    if (!answer) return Failure(std::move(answer.error()));
    std::vector<IdleEntry> out;
    for (std::size_t i = 0; i + 1 < answer->items.size(); i += 2) {
      const auto expires = milliseconds(number_in<std::int64_t>(answer->items[i + 1].text));
      out.push_back({.sandbox_id = answer->items[i].text, .expires_at = Timestamp(expires)});
    }
    return out;
  }

  Result<bool> acquire_lock(const std::string& pool, const std::string& owner, milliseconds ttl) override {
    return lock_script(kLock, pool, owner, ttl);
  }
  Result<bool> renew_lock(const std::string& pool, const std::string& owner, milliseconds ttl) override {
    return lock_script(kRenew, pool, owner, ttl);
  }
  Result<void> release_lock(const std::string& pool, const std::string& owner) override {
    auto released = lock_script(kRelease, pool, owner, milliseconds(0));
    if (!released) return Failure(std::move(released.error()));
    return {};
  }

  Result<std::optional<int>> max_idle(const std::string& pool) override {
    auto answer = call({"GET", key(pool, "maxIdle")});
    if (!answer) return Failure(std::move(answer.error()));
    if (answer->kind != osb::redis::Reply::Kind::Text) return std::optional<int>();
    return number_in<int>(answer->text);
  }
  Result<void> set_max_idle(const std::string& pool, int max_idle) override {
    return done(call({"SET", key(pool, "maxIdle"), std::to_string(max_idle)}));
  }
  Result<void> set_idle_ttl(const std::string& pool, milliseconds ttl) override {
    return done(call({"SET", key(pool, "idleTtlMillis"), std::to_string(ttl.count())}));
  }

 private:
  // Braces keep a pool's keys together in a cluster.
  std::string key(const std::string& pool, std::string_view suffix) const {
    return prefix_ + ":{" + base64url(pool) + "}:" + std::string(suffix);
  }

  Result<osb::redis::Reply> call(const std::vector<std::string>& command) {
    const std::scoped_lock lock(mutex_);
    return connection_.call(command);
  }

  Result<osb::redis::Reply> idle_script(std::string_view script, const std::string& pool, const std::string& argument) {
    return call({"EVAL", std::string(kNow) + std::string(script), "3", key(pool, "idle:list"),
                 key(pool, "idle:expires"), key(pool, "idleTtlMillis"), argument});
  }

  Result<bool> lock_script(std::string_view script, const std::string& pool, const std::string& owner,
                           milliseconds ttl) {
    auto answer = call({"EVAL", std::string(script), "1", key(pool, "lock"), owner, std::to_string(ttl.count())});
    if (!answer) return Failure(std::move(answer.error()));
    return answer->number == 1;
  }

  static Result<void> done(const Result<osb::redis::Reply>& answer) {
    if (!answer) return Failure(answer.error());
    return {};
  }
  static Failure odd() { return pool_error("POOL_STATE_STORE_UNAVAILABLE", "redis: the answer is not understood"); }

  std::mutex mutex_;
  RedisConnection connection_;
  const std::string prefix_;
};

}  // namespace

Result<std::shared_ptr<PoolStateStore>> make_redis_store(const RedisOptions& options) {
  if (options.timeout.count() <= 0) return invalid_argument("redis: timeout must be positive");
  auto address = osb::redis::parse_address(options.url);
  if (!address) return invalid_argument("redis: " + address.error().message);
  return std::make_shared<RedisStore>(std::move(*address), options);
}

}  // namespace opensandbox
