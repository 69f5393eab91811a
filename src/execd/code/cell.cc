#include "execd/code/cell.h"

#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/duration.h"
#include "base/json_escape.h"
#include "base/line_splitter.h"
#include "base/out_of_memory.h"
#include "base/time.h"

namespace osb::execd {
namespace {

constexpr std::string_view kPlainText = "text/plain";
// Plain text is in an event twice; the rest of the event is for richer forms of the same value.
constexpr std::size_t kMaxPlainText = 512 * 1024;
constexpr std::size_t kAroundResults = 512;

net::awaitable<Result<void>> wait_for(Event& event) {
  co_await event.wait();
  co_return Result<void>();
}

}  // namespace

Cell::Cell(const net::any_io_executor& executor, Plan plan)
    : plan_(std::move(plan)), log_(std::make_shared<EventLog>(plan_.log)), writer_(*log_), ended_(executor) {
  writer_.stamp(unix_millis());
  writer_.init(plan_.context_id, plan_.number);
}

net::awaitable<bool> Cell::wait_end(std::chrono::nanoseconds limit) {
  if (!ended()) co_await with_timeout(wait_for(ended_), limit);
  co_return ended();
}

void Cell::output(bool is_stderr, std::string_view text) {
  if (text.empty() || ended()) return;
  writer_.stamp(unix_millis());
  writer_.output(is_stderr, text);
}

void Cell::result(const std::map<std::string, std::string>& data, bool display, std::uint64_t count) {
  if (data.empty() || ended()) return;
  std::string fields = R"({"type":"result","results":{)";
  std::string dropped;
  const auto add = [&](std::string_view type, std::string_view value) {
    std::string entry = fields.back() == '{' ? "" : ",";
    append_json_string(entry, type);
    entry += ':';
    append_json_string(entry, value);
    if (fields.size() + entry.size() + kAroundResults > kMaxEventBytes) {
      dropped += concat("[", type, " of ", value.size(), " bytes is too large for an event and was left out]\n");
    } else {
      fields += entry;
    }
  };
  if (const auto plain = data.find(std::string(kPlainText)); plain != data.end()) {
    std::string_view text = plain->second;
    std::string cut;
    if (text.size() > kMaxPlainText) {
      cut = concat(text.substr(0, utf8_prefix(text, kMaxPlainText)), "... [", text.size(), " bytes, cut]");
      text = cut;
    }
    add("text", text);
    add(kPlainText, text);
  }
  for (const auto& [type, value] : data) {
    if (type != kPlainText && type != "text") add(type, value);
  }
  writer_.stamp(unix_millis());
  if (fields.back() != '{') {
    if (!display) {
      writer_.write(concat(R"({"type":"execution_count","execution_count":)", count > 0 ? count : plan_.number));
    }
    writer_.write(fields + '}');
  }
  if (!dropped.empty()) writer_.output(true, dropped);
}

std::string Cell::timeout_text() const {
  return concat("the code did not end within ", plan_.timeout.count(), " ms and was interrupted");
}

void Cell::error(std::string_view name, std::string_view value, std::span<const std::string> traceback) {
  if (std::exchange(failed_, true) || ended()) return;
  writer_.stamp(unix_millis());
  if (timed_out_) {
    // Clients that show the traceback only have to tell it from an interrupt by hand.
    const std::string text = timeout_text() + "; the context keeps its state";
    std::vector<std::string> lines(traceback.begin(), traceback.end());
    lines.push_back(concat(kExecutionTimeout, ": ", text));
    writer_.error(kExecutionTimeout, text, lines, timeout_reason());
  } else {
    writer_.error(name, value, traceback);
  }
}

void Cell::finish() {
  if (ended()) return;
  if (timed_out_ && !failed_) error(kExecutionTimeout, "", {});
  writer_.stamp(unix_millis());
  writer_.complete(elapsed());
  close(!failed_);
}

void Cell::fail(std::string_view name, std::string_view value, const std::optional<EndReason>& reason) {
  if (ended()) return;
  if (!std::exchange(failed_, true)) {
    const std::string text = timed_out_ ? concat(timeout_text(), "; ", value) : std::string(value);
    writer_.stamp(unix_millis());
    writer_.error(name, text, std::vector<std::string>{text}, reason ? reason : timeout_reason());
  } else {
    writer_.output(true, concat("[", value, "]\n"));
    writer_.complete(elapsed());
  }
  close(false);
}

std::optional<EndReason> Cell::timeout_reason() const {
  if (!timed_out_) return std::nullopt;
  return EndReason{kReasonTimeout, "timed out after " + format_duration(plan_.timeout)};
}

std::chrono::milliseconds Cell::elapsed() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time_.elapsed());
}

void Cell::close(bool success) {
  log_->on_room(nullptr);
  log_->close();
  log_->shrink();
  ended_.set();
  if (auto on_end = std::exchange(plan_.on_end, nullptr)) on_end(success, elapsed());
}

}  // namespace osb::execd
