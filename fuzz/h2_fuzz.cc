// HTTP/2 as both kinds of peer send it: to a session of a server with the first byte even, of a client otherwise. The
// owner of the session behaves like the relay: it answers, reads, and resets.

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "intercept/h2_session.h"

namespace {

using namespace osb;
using intercept::H2Code;
using intercept::H2Head;
using intercept::H2Session;

class Owner final : public intercept::H2Events {
 public:
  explicit Owner(H2Session::Role role) : server_(role == H2Session::Role::Server), session(role, *this) {}

  void on_head(std::int32_t stream, H2Head head, bool ended) override {
    for (const auto& [name, value] : head.fields) check(name, value);
    for (const std::string* text : {&head.method, &head.scheme, &head.authority, &head.path}) check(":", *text);
    if (!server_) return;
    if (head.method.empty() && !head.oversize) std::abort();
    open_[stream] = !ended;
    H2Head answer;
    answer.status = 200;
    answer.fields = {{"content-type", "text/plain"}};
    session.respond(stream, answer, true);
  }
  void on_data(std::int32_t stream, std::string_view piece) override {
    unread_ += piece.size();
    if (unread_ > 64 * 1024) std::abort();  // more than the window allows
    if (piece.size() % 2 == 0) {
      unread_ -= piece.size();
      session.consume(stream, piece.size());
    }
  }
  void on_end(std::int32_t stream, http::Headers trailers) override {
    for (const auto& [name, value] : trailers) check(name, value);
    open_[stream] = false;
    session.resume(stream);
  }
  void on_sent_end(std::int32_t stream) override {
    if (open_[stream]) session.reset(stream, H2Code::None);
  }
  void on_closed(std::int32_t stream, H2Code) override { open_.erase(stream); }
  void on_goaway() override { session.go_away(H2Code::None); }
  Pulled pull(std::int32_t, std::span<char> into) override {
    Pulled out;
    out.bytes = std::min<std::size_t>(into.size(), 100);
    std::fill_n(into.data(), out.bytes, 'x');
    out.ended = true;
    return out;
  }

 private:
  // Nothing that could end a line, or a name, in HTTP/1.
  static void check(std::string_view name, std::string_view value) {
    using namespace std::literals;
    if (name.empty() || name.find_first_of("\r\n\0 "sv) != std::string_view::npos) std::abort();
    if (value.find_first_of("\r\n\0"sv) != std::string_view::npos) std::abort();
    if (name == "connection" || name == "transfer-encoding" || name == "upgrade") std::abort();
  }

  const bool server_;
  std::map<std::int32_t, bool> open_;  // streams, and whether the peer still sends
  std::size_t unread_ = 0;

 public:
  H2Session session;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool server = data[0] % 2 == 0;
  const std::size_t piece = data[0] / 2 + 1u;
  Owner owner(server ? H2Session::Role::Server : H2Session::Role::Client);
  if (!server) {
    H2Head head{.method = "GET", .scheme = "https", .authority = "a.test", .path = "/", .fields = {}};
    (void)owner.session.request(head, {{"authorization", "x"}}, false, true);
    (void)owner.session.request(head, {}, true, false);
  }
  std::string out;
  (void)owner.session.send(out, 1 << 20);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  for (std::size_t at = 0; at < bytes.size() && !owner.session.ended(); at += piece) {
    const auto taken = owner.session.receive(bytes.substr(at, piece));
    out.clear();
    (void)owner.session.send(out, 1 << 20);
    if (!taken) break;
  }
  return 0;
}
