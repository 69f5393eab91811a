#include "execd/pty/client_frame.h"

#include <array>
#include <csignal>
#include <cstdint>
#include <utility>

#include "api/execd_requests.h"
#include "base/json_escape.h"

namespace osb::execd {
namespace {

int signal_number(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, int>, 5> kSignals = {{
      {"SIGINT", SIGINT},
      {"SIGTERM", SIGTERM},
      {"SIGKILL", SIGKILL},
      {"SIGQUIT", SIGQUIT},
      {"SIGHUP", SIGHUP},
  }};
  for (const auto& [known, number] : kSignals) {
    if (known == name) return number;
  }
  return 0;
}

ClientFrame decode_binary(std::string data) {
  if (data.size() < 2 || data.front() != kStdinTag) return IgnoredFrame{};
  data.erase(0, 1);
  return StdinFrame{std::move(data)};
}

}  // namespace

ClientFrame decode_client_frame(bool text, std::string data) {
  if (!text) return decode_binary(std::move(data));
  auto frame = api::decode_pty_frame(data);
  if (!frame) return IgnoredFrame{};
  if (frame->type == "stdin") {
    if (frame->data.empty()) return IgnoredFrame{};
    return StdinFrame{std::move(frame->data)};
  }
  if (frame->type == "signal") {
    const int number = signal_number(frame->signal);
    if (number == 0) return IgnoredFrame{};
    return SignalFrame{number};
  }
  if (frame->type == "resize") {
    if (frame->cols <= 0 || frame->rows <= 0) return IgnoredFrame{};
    return ResizeFrame{frame->cols, frame->rows};
  }
  if (frame->type == "eof") return EndOfInputFrame{};
  if (frame->type == "ping") return PingFrame{};
  return InvalidFrame{"unknown frame type " + in_quotes(frame->type)};
}

std::string replay_head(std::uint64_t offset) {
  std::string head(1, kReplayTag);
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>(offset >> shift & 0xFF);
  return head;
}

std::string connected_text(std::string_view session_id, std::string_view mode, bool read_only,
                           std::optional<std::uint64_t> input_offset) {
  std::string out = R"({"type":"connected","session_id":)";
  append_json_string(out, session_id);
  out += R"(,"mode":)";
  append_json_string(out, mode);
  if (read_only) out += R"(,"readonly":true)";
  if (input_offset) out += R"(,"input_offset":)" + std::to_string(*input_offset);
  return out + '}';
}

std::string input_text(std::uint64_t offset, bool closed) {
  std::string out = R"({"type":"input","offset":)" + std::to_string(offset);
  if (closed) out += R"(,"closed":true)";
  return out + '}';
}

std::string pong_text() { return R"({"type":"pong"})"; }

std::string exit_text(int code, int signal, const std::optional<EndReason>& reason) {
  std::string out = R"({"type":"exit","exit_code":)" + std::to_string(code);
  if (signal != 0) out += R"(,"signal":)" + std::to_string(signal);
  append_reason(out, reason);
  return out + '}';
}

std::string error_text(std::string_view code, std::string_view message) {
  std::string out = R"({"type":"error","error":)";
  append_json_string(out, message);
  out += R"(,"code":)";
  append_json_string(out, code);
  return out + '}';
}

}  // namespace osb::execd
