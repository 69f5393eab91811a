#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace osb {

// Log lines are an event and keys: log_info("sandbox created", {{"id", id}, {"ms", 12}}). The event is a fixed phrase;
// everything that varies is a key. Values are escaped, so input cannot forge a line, a key or a terminal sequence.

enum class LogLevel : std::uint8_t { Debug, Info, Warn, Error, Off };

enum class LogFormat : std::uint8_t {
  Text,  // 2025-01-02T03:04:05.678Z info  sandbox created id=.. ms=12
  Json,  // {"time":"2025-01-02T03:04:05.678Z","level":"info","event":"sandbox created","id":"..","ms":12}
};

struct LogOptions {
  LogLevel level = LogLevel::Info;
  LogFormat format = LogFormat::Text;
  std::vector<std::string> outputs = {"stderr"};  // "stdout", "stderr", or the path of a file
  // A file that would grow beyond this becomes path.1, path.1 becomes path.2, and so on; the oldest goes.
  std::uint64_t rotate_bytes = 100u << 20;
  int keep_files = 10;  // including the one being written
  // Of JSON lines: names of two keys, and keys with values that every line has.
  std::string time_key = "time", event_key = "event";
  std::vector<std::pair<std::string, std::string>> always = {};
};

// Called once by main before other threads exist; until then warnings and errors go to stderr as text. Nothing changes
// when a file cannot be opened.
Result<void> configure_log(const LogOptions& options);

// A value by reference: lives as long as the expression that logs it.
class LogValue {
 public:
  using Data = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

  LogValue(std::string_view text) : data_(text) {}
  LogValue(const std::string& text) : data_(std::string_view(text)) {}
  LogValue(const char* text) : data_(std::string_view(text)) {}
  LogValue(bool value) : data_(value) {}
  LogValue(double value) : data_(value) {}
  LogValue(std::signed_integral auto value) : data_(static_cast<std::int64_t>(value)) {}
  LogValue(std::unsigned_integral auto value) : data_(static_cast<std::uint64_t>(value)) {}
  template <typename T>
  LogValue(const T*) = delete;  // would be logged as a bool

  const Data& data() const { return data_; }

 private:
  Data data_;
};

struct LogField {
  std::string_view key;
  LogValue value;
};

using LogFields = std::initializer_list<LogField>;

namespace detail {

inline std::atomic<LogLevel> log_threshold{LogLevel::Warn};

struct BoundField {
  std::string key;
  std::variant<std::string, std::int64_t, std::uint64_t, double, bool> value;
};

void write_log(LogLevel level, std::string_view event, std::span<const BoundField> bound, LogFields fields);

}  // namespace detail

// For values that cost something to compute: if (log_enabled(LogLevel::Debug)) ...
inline bool log_enabled(LogLevel level) { return level >= detail::log_threshold.load(std::memory_order_relaxed); }

inline void log_at(LogLevel level, std::string_view event, LogFields fields = {}) {
  if (log_enabled(level)) [[unlikely]]
    detail::write_log(level, event, {}, fields);
}
inline void log_debug(std::string_view event, LogFields fields = {}) { log_at(LogLevel::Debug, event, fields); }
inline void log_info(std::string_view event, LogFields fields = {}) { log_at(LogLevel::Info, event, fields); }
inline void log_warn(std::string_view event, LogFields fields = {}) { log_at(LogLevel::Warn, event, fields); }
inline void log_error(std::string_view event, LogFields fields = {}) { log_at(LogLevel::Error, event, fields); }

// Keys bound once, written with every line: const Logger log = Logger().with("request_id", id). A plain value that a
// coroutine keeps or passes on; nothing hides in a thread, where coroutines would mix theirs up.
class Logger {
 public:
  Logger with(std::string_view key, LogValue value) const&;
  Logger with(std::string_view key, LogValue value) &&;

  void debug(std::string_view event, LogFields fields = {}) const { at(LogLevel::Debug, event, fields); }
  void info(std::string_view event, LogFields fields = {}) const { at(LogLevel::Info, event, fields); }
  void warn(std::string_view event, LogFields fields = {}) const { at(LogLevel::Warn, event, fields); }
  void error(std::string_view event, LogFields fields = {}) const { at(LogLevel::Error, event, fields); }

  void at(LogLevel level, std::string_view event, LogFields fields = {}) const {
    if (log_enabled(level)) [[unlikely]]
      detail::write_log(level, event, bound_, fields);
  }

 private:
  std::vector<detail::BoundField> bound_;
};

// "debug", "info", "warn" or "warning", "error", "off", in any case.
Result<LogLevel> parse_log_level(std::string_view text);

}  // namespace osb
