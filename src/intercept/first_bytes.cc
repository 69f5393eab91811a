#include "intercept/first_bytes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/deadline.h"
#include "base/parse_number.h"
#include "http/parser.h"
#include "tls/client_hello.h"
#include "tls/host_name.h"
#include "tls/resolver.h"

namespace osb::intercept {
namespace {

constexpr std::size_t kLongestHead = 64 * 1024;
constexpr std::size_t kLongestRequestLine = 16 * 1024;

// Looks at bytes as they come. True: `found` is final.
class Detector {
 public:
  explicit Detector(FirstBytes& found) : found_(found) {}

  bool take(std::string_view piece) {
    found_.bytes += piece;
    if (!is_text_) {
      switch (hello_.take(piece)) {
        case tls::ClientHelloReader::State::NeedMore:
          return false;
        case tls::ClientHelloReader::State::Complete:
          take_offers(hello_.hello().alpn);
          return named(Protocol::Tls, hello_.hello().server_name);
        case tls::ClientHelloReader::State::Refused:
          found_.protocol = Protocol::Tls;
          return bad(hello_.why());
        case tls::ClientHelloReader::State::NotTls:
          is_text_ = true;
      }
    }
    return take_text();
  }

 private:
  void take_offers(const std::vector<std::string>& protocols) {
    found_.offers_http2 = std::ranges::find(protocols, "h2") != protocols.end();
    found_.offers_http1 = protocols.empty() || std::ranges::find(protocols, "http/1.1") != protocols.end();
  }

  bool take_text() {
    const std::string_view bytes = found_.bytes;
    if (!has_request_line_) {
      if (bytes.front() < 'A' || bytes.front() > 'Z') return named(Protocol::Other, "");
      const std::size_t line_end = bytes.find('\n');
      if (line_end == std::string_view::npos) {
        return bytes.size() > kLongestRequestLine && named(Protocol::Other, "");
      }
      const std::string_view line = bytes.substr(0, line_end);
      if (!line.ends_with(" HTTP/1.1\r") && !line.ends_with(" HTTP/1.0\r")) return named(Protocol::Other, "");
      has_request_line_ = true;
      found_.protocol = Protocol::Http;
    }
    const std::size_t end = http::find_head_end(bytes, searched_);
    if (end == 0) return bytes.size() > kLongestHead && bad("the request head is too long");
    const auto head = http::parse_request_head(bytes.substr(0, end));
    if (!head) return bad(head.error().message);
    const std::string* host = head->headers.find("Host");
    if (host == nullptr || host->empty()) return named(Protocol::Http, "");
    const auto field = parse_host_field(*host);
    if (!field) return bad("the Host field names no host");
    return named(Protocol::Http, field->name.value_or(""));
  }

  bool named(Protocol protocol, std::string name) {
    found_.kind = FirstBytes::Kind::Named;
    found_.protocol = protocol;
    if (!name.empty()) found_.name = std::move(name);
    return true;
  }
  bool bad(std::string why) {
    found_.kind = FirstBytes::Kind::Bad;
    found_.why = std::move(why);
    return true;
  }

  FirstBytes& found_;
  tls::ClientHelloReader hello_;
  bool is_text_ = false;
  bool has_request_line_ = false;
  std::size_t searched_ = 0;
};

}  // namespace

std::optional<HostField> parse_host_field(std::string_view text) {
  HostField out;
  std::string_view host = text;
  const bool bracket = text.starts_with('[');
  const std::size_t colon = bracket ? text.find("]:") : text.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view port = text.substr(colon + (bracket ? 2 : 1));
    out.port = parse_number<std::uint16_t>(port);
    if (!out.port || *out.port == 0) return std::nullopt;
    host = text.substr(0, colon + (bracket ? 1 : 0));
  }
  if (bracket) {
    if (!host.ends_with(']') || !parse_ip_address(host.substr(1, host.size() - 2))) return std::nullopt;
    return out;
  }
  if (parse_ip_address(host)) return out;
  if (host.ends_with('.')) host.remove_suffix(1);
  out.name = tls::parse_dns_name(host);
  return out.name ? std::optional(std::move(out)) : std::nullopt;
}

net::awaitable<FirstBytes> read_first_bytes(http::Transport& client, std::chrono::milliseconds patience) {
  FirstBytes found;
  Detector detector(found);
  client.set_timeout(patience);
  std::array<char, 4096> buffer;
  for (;;) {
    const auto got = co_await client.read_some(buffer);
    if (!got && got.error().code == Code::Timeout) {
      found.kind = found.bytes.empty() ? FirstBytes::Kind::Silent : FirstBytes::Kind::Bad;
      found.why = "the beginning of the connection took too long";
      break;
    }
    if (!got || *got == 0) break;  // Ended
    if (detector.take({buffer.data(), *got})) break;
  }
  client.set_deadline(std::nullopt);
  co_return found;
}

}  // namespace osb::intercept
