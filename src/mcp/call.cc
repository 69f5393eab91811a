#include "mcp/call.h"

#include <utility>

namespace osb::mcp {
namespace {

constexpr std::chrono::milliseconds kFlushEvery(100);
constexpr std::size_t kMostOutput = 4096;
// Of all pictures of a result: with the text it stays below the 1 MiB that the official Python client takes over HTTP.
constexpr std::size_t kMostPictureBytes = 700'000;

}  // namespace

Call::Call(const Environment& environment, json::object arguments, json::value progress_token,
           std::shared_ptr<Outlet> outlet)
    : environment_(environment),
      arguments_(std::move(arguments)),
      token_(std::move(progress_token)),
      outlet_(std::move(outlet)),
      timer_(environment_.loop) {}

std::string Call::text(std::string_view name) const {
  const json::value& value = arguments_.at(name);
  return value.is_null() ? std::string() : std::string(value.as_string());
}

std::vector<std::string> Call::texts(std::string_view name) const {
  std::vector<std::string> out;
  if (const json::array* items = arguments_.at(name).if_array()) {
    for (const json::value& item : *items) out.emplace_back(item.as_string());
  }
  return out;
}

std::map<std::string, std::string> Call::text_map(std::string_view name) const {
  std::map<std::string, std::string> out;
  if (const json::object* members = arguments_.at(name).if_object()) {
    for (const auto& [key, value] : *members) out.emplace(key, value.as_string());
  }
  return out;
}

void Call::progress(double done, double total, std::string_view message) {
  if (!token_.is_null() && !closed_ && !cancelled_) notify(done, total, message);
}

void Call::output(std::string_view line) {
  if (token_.is_null() || closed_ || cancelled_) return;
  seen_ += line.size() + 1;
  pending_.append(line).append("\n");
  if (pending_.size() > 2 * kMostOutput) {
    std::size_t cut = pending_.size() - kMostOutput;
    while (cut < pending_.size() && (static_cast<unsigned char>(pending_[cut]) & 0xC0) == 0x80) ++cut;
    pending_.erase(0, cut);
  }
  if (!waiting_) flush();
}

void Call::flush() {
  waiting_ = !pending_.empty() && !closed_;
  if (!waiting_) return;
  notify(static_cast<double>(seen_), std::nullopt, std::exchange(pending_, {}));
  timer_.expires_after(kFlushEvery);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code&) { self->flush(); });
}

void Call::notify(double done, std::optional<double> total, std::string_view message) {
  json::object params{{"progressToken", token_}, {"progress", done}};
  if (total) params["total"] = *total;
  params["message"] = message;
  outlet_->send(encode_notification("notifications/progress", std::move(params)));
}

bool Call::add_picture(std::string_view mime_type, std::string_view base64) {
  if (base64.size() > kMostPictureBytes - picture_bytes_) return false;
  picture_bytes_ += base64.size();
  pictures_.push_back(json::object{{"type", "image"}, {"data", base64}, {"mimeType", mime_type}});
  return true;
}

void Call::on_cancel(std::function<void()> action) {
  if (cancelled_) return action();
  on_cancel_ = std::move(action);
}

void Call::cancel() {
  if (std::exchange(cancelled_, true)) return;
  if (const auto action = std::exchange(on_cancel_, {})) action();
}

void Call::close() {
  if (!pending_.empty() && !cancelled_) notify(static_cast<double>(seen_), std::nullopt, std::exchange(pending_, {}));
  closed_ = true;
  on_cancel_ = {};
  timer_.cancel();
}

}  // namespace osb::mcp
