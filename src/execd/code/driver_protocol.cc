#include "execd/code/driver_protocol.h"

#include <optional>

#include "api/json.h"
#include "base/json_escape.h"
#include "base/parse_number.h"
#include "execd/code/mime_bundle.h"

namespace osb::execd {
namespace {

constexpr std::size_t kMaxDigits = 8;
constexpr std::size_t kMaxTraceback = 2000;  // lines
constexpr api::ReadOptions kReading{};

std::optional<DriverMessage::Type> type_of(std::string_view name) {
  using Type = DriverMessage::Type;
  if (name == "ready") return Type::Ready;
  if (name == "started") return Type::Started;
  if (name == "deaf") return Type::Deaf;
  if (name == "result") return Type::Result;
  if (name == "display") return Type::Display;
  if (name == "error") return Type::Error;
  if (name == "done") return Type::Done;
  return std::nullopt;
}

Result<std::optional<DriverMessage>> decode(std::string_view body) {
  const auto value = api::parse_json(body);
  if (!value) return Failure(value.error());
  api::ObjectReader r(*value, kReading);
  const auto type = type_of(r.optional_string("type").value_or(""));
  DriverMessage out;
  out.run = static_cast<std::uint64_t>(r.optional_int64("run", 0).value_or(0));
  out.ename = r.optional_string("ename").value_or("");
  out.evalue = r.optional_string("evalue").value_or("");
  out.traceback = r.string_list("traceback").value_or(std::vector<std::string>());
  out.status = static_cast<int>(r.optional_int64("status", 0, 255).value_or(0));
  out.data = mime_bundle(r.find("data"));
  if (auto done = r.finish(); !done) return Failure(done.error());
  if (!type) return std::nullopt;
  out.type = *type;
  if (out.traceback.size() > kMaxTraceback) out.traceback.resize(kMaxTraceback);
  return out;
}

Failure broken(std::string_view why) { return fail(Code::InvalidRequest, "driver protocol: " + std::string(why)); }

}  // namespace

Result<void> DriverFrameDecoder::feed(std::string_view bytes, std::deque<DriverMessage>& out) {
  buffer_ += bytes;
  std::string_view rest = buffer_;
  for (;;) {
    const std::size_t head = rest.substr(0, kMaxDigits + 1).find_first_of("\n ");
    if (head == std::string_view::npos) {
      if (rest.size() > kMaxDigits) return broken("expected a length, got " + in_quotes(rest.substr(0, kMaxDigits)));
      break;
    }
    const auto parsed = parse_number<std::size_t>(rest.substr(0, head));
    if (!parsed || *parsed > kMaxFrame) {
      return broken("bad length " + in_quotes(rest.substr(0, head)));
    }
    const std::size_t length = *parsed;
    if (rest.size() - head - 1 < length) break;
    auto message = decode(rest.substr(head + 1, length));
    if (!message) return broken(message.error().message);
    if (*message) out.push_back(std::move(**message));
    rest.remove_prefix(head + 1 + length);
  }
  buffer_.erase(0, buffer_.size() - rest.size());
  if (buffer_.empty() && buffer_.capacity() > 64 * 1024) buffer_ = std::string();
  return {};
}

}  // namespace osb::execd
