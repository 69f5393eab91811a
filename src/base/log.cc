#include "base/log.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <time.h>
#include <unistd.h>

#include "base/json_escape.h"
#include "base/rotating_file.h"
#include "base/text.h"
#include "base/time.h"
#include "base/timespec.h"

namespace osb {
namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error"};

class Output {
 public:
  virtual ~Output() = default;
  virtual void write(std::string_view line) = 0;
};

class StreamOutput final : public Output {
 public:
  explicit StreamOutput(int fd) : fd_(fd) {}
  void write(std::string_view line) override { write_line(fd_, line); }

 private:
  int fd_;
};

class FileOutput final : public Output {
 public:
  FileOutput(const std::string& path, const LogOptions& options)
      : file_(path, options.rotate_bytes, options.keep_files) {}
  Result<void> open() { return file_.open(); }
  void write(std::string_view line) override { file_.write(line); }

 private:
  RotatingFile file_;
};

struct State {
  std::mutex mutex;  // configuration and rotation; held while a line is written
  LogFormat format = LogFormat::Text;
  std::string time_key = "time", event_key = "event";
  std::string always;  // as it is written
  std::vector<std::unique_ptr<Output>> outputs;

  State() { outputs.push_back(std::make_unique<StreamOutput>(STDERR_FILENO)); }
};

State& state() {
  static State* const leaked = new State;  // usable until the very end of the process
  return *leaked;
}

std::string now_text() {
  timespec now = timespec_now();
  now.tv_nsec -= now.tv_nsec % 1'000'000;
  std::string text = format_timestamp_nanos(now);
  // Always three digits, so that columns line up and text sorts by time.
  text.pop_back();
  if (text.size() == 19) text.push_back('.');
  text.append(23 - text.size(), '0');
  return text += 'Z';
}

// DEL and the C1 controls mean something to a terminal; JSON leaves them alone.
void append_for_terminal(std::string& out, std::string_view json) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0;
    const bool c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    if (byte != 0x7f && !c1) {
      out.push_back(json[i]);
      continue;
    }
    const unsigned code = c1 ? next : byte;
    out += "\\u00";
    out.push_back(kDigits[code >> 4]);
    out.push_back(kDigits[code & 15]);
    i += c1 ? 1 : 0;
  }
}

void append_text_string(std::string& out, std::string_view text, bool may_have_spaces) {
  bool bare = !text.empty();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    bare = bare && byte > 0x20 - (may_have_spaces ? 1 : 0) && byte < 0x7f && c != '"' && c != '=' && c != '\\';
  }
  if (bare) {
    out += text;
    return;
  }
  std::string json;
  append_json_string(json, text);
  append_for_terminal(out, json);
}

void append_number(std::string& out, double value, LogFormat format) {
  if (!std::isfinite(value) && format == LogFormat::Json) {
    out += "null";
    return;
  }
  char digits[32];
  out.append(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.9g", value)));
}

template <typename Value>
void append_value(std::string& out, const Value& value, LogFormat format) {
  std::visit(
      [&]<typename T>(const T& v) {
        if constexpr (std::same_as<T, bool>) {
          out += v ? "true" : "false";
        } else if constexpr (std::same_as<T, double>) {
          append_number(out, v, format);
        } else if constexpr (std::integral<T>) {
          out += std::to_string(v);
        } else if (format == LogFormat::Json) {
          append_json_string(out, v);
        } else {
          append_text_string(out, v, false);
        }
      },
      value);
}

template <typename Value>
void append_field(std::string& out, std::string_view key, const Value& value, LogFormat format) {
  if (format == LogFormat::Json) {
    out.push_back(',');
    append_json_string(out, key);
    out.push_back(':');
  } else {
    out.push_back(' ');
    append_text_string(out, key, false);
    out.push_back('=');
  }
  append_value(out, value, format);
}

detail::BoundField bound_field(std::string_view key, const LogValue& value) {
  detail::BoundField field{std::string(key), {}};
  std::visit(
      [&]<typename T>(const T& v) {
        if constexpr (std::same_as<T, std::string_view>) {
          field.value = std::string(v);
        } else {
          field.value = v;
        }
      },
      value.data());
  return field;
}

}  // namespace

namespace detail {

void write_log(LogLevel level, std::string_view event, std::span<const BoundField> bound, LogFields fields) {
  if (level >= LogLevel::Off) return;
  const int saved = errno;  // logging in the middle of handling an error must not change it
  const std::string_view name = kLevelNames[static_cast<std::size_t>(level)];
  State& log = state();
  const std::lock_guard lock(log.mutex);
  std::string line;
  line.reserve(256);
  if (log.format == LogFormat::Json) {
    line += "{\"" + log.time_key + "\":\"" + now_text() + "\",\"level\":\"";
    line += name;
    line += "\",\"" + log.event_key + "\":";
    append_json_string(line, event);
    line += log.always;
  } else {
    line += now_text() + ' ';
    line += name;
    line.append(6 - name.size(), ' ');
    append_text_string(line, event, true);
  }
  for (const BoundField& field : bound) append_field(line, field.key, field.value, log.format);
  for (const LogField& field : fields) append_field(line, field.key, field.value.data(), log.format);
  line += log.format == LogFormat::Json ? "}\n" : "\n";
  for (const auto& output : log.outputs) output->write(line);
  errno = saved;
}

}  // namespace detail

Result<void> configure_log(const LogOptions& options) {
  std::vector<std::unique_ptr<Output>> outputs;
  for (const std::string& name : options.outputs) {
    if (name == "stdout" || name == "stderr") {
      outputs.push_back(std::make_unique<StreamOutput>(name == "stdout" ? STDOUT_FILENO : STDERR_FILENO));
      continue;
    }
    auto file = std::make_unique<FileOutput>(name, options);
    if (auto opened = file->open(); !opened) return opened;
    outputs.push_back(std::move(file));
  }
  State& log = state();
  const std::lock_guard lock(log.mutex);
  log.outputs = std::move(outputs);
  log.format = options.format;
  log.time_key = options.time_key;
  log.event_key = options.event_key;
  log.always.clear();
  for (const auto& [key, value] : options.always) {
    append_field(log.always, key, LogValue(value).data(), LogFormat::Json);
  }
  detail::log_threshold.store(options.level, std::memory_order_relaxed);
  return {};
}

Logger Logger::with(std::string_view key, LogValue value) const& { return Logger(*this).with(key, value); }

Logger Logger::with(std::string_view key, LogValue value) && {
  bound_.push_back(bound_field(key, value));
  return std::move(*this);
}

Result<LogLevel> parse_log_level(std::string_view text) {
  const std::string name = lower(text);
  if (name == "debug") return LogLevel::Debug;
  if (name == "info") return LogLevel::Info;
  if (name == "warn" || name == "warning") return LogLevel::Warn;
  if (name == "error") return LogLevel::Error;
  if (name == "off") return LogLevel::Off;
  return fail(Code::InvalidRequest, "log level " + in_quotes(text) + ": expected debug, info, warn, error or off");
}

}  // namespace osb
