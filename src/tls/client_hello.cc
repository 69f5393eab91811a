#include "tls/client_hello.h"

#include <algorithm>
#include <optional>
#include <set>

#include "tls/host_name.h"

namespace osb::tls {
namespace {

// Hellos with keys for hybrid key exchange have about 2 KiB; those that resume a session with a large ticket some more.
constexpr std::size_t kLongestMessage = 32 * 1024;
constexpr std::size_t kMostRecords = 64;
constexpr std::size_t kLongestRecord = 16 * 1024;
constexpr std::size_t kMessageHeader = 4;  // type, three bytes of length
constexpr unsigned char kHandshake = 22;
constexpr unsigned char kClientHello = 1;
constexpr std::size_t kRandom = 32;
constexpr std::size_t kLongestSessionId = 32;
constexpr std::size_t kMostProtocols = 32;

enum Extension : std::uint16_t { kServerName = 0, kAlpn = 16, kEncryptedHello = 0xfe0d };

// Takes fields off the front of a message. A field that is not there makes it fail, for good.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  std::uint32_t number(std::size_t size) {
    std::uint32_t value = 0;
    for (const char c : bytes(size)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::string_view bytes(std::size_t size) {
    if (size > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const std::string_view out = left_.substr(0, size);
    left_.remove_prefix(size);
    return out;
  }
  // Bytes with their length, of `size` bytes, in front.
  std::string_view block(std::size_t size) { return bytes(number(size)); }

  bool ok() const { return ok_; }
  bool empty() const { return left_.empty(); }
  bool finished() const { return ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

// RFC 6066, 3: a list of names, of which only one type exists.
std::optional<std::string> parse_server_name(std::string_view data) {
  Fields outer(data);
  Fields list(outer.block(2));
  if (!outer.finished()) return std::nullopt;
  const std::uint32_t type = list.number(1);
  const std::string_view name = list.block(2);
  if (!list.finished() || type != 0) return std::nullopt;
  return parse_dns_name(name);
}

// RFC 7301, 3.1.
std::optional<std::vector<std::string>> parse_alpn(std::string_view data) {
  Fields outer(data);
  Fields list(outer.block(2));
  if (!outer.finished() || list.empty()) return std::nullopt;
  std::vector<std::string> out;
  while (!list.empty()) {
    const std::string_view name = list.block(1);
    if (!list.ok() || name.empty() || out.size() == kMostProtocols) return std::nullopt;
    out.emplace_back(name);
  }
  return out;
}

}  // namespace

ClientHelloReader::State ClientHelloReader::refuse(const char* why) {
  why_ = why;
  return State::Refused;
}

ClientHelloReader::State ClientHelloReader::take(std::string_view bytes) {
  while (state_ == State::NeedMore && !bytes.empty()) {
    state_ = record_left_ == 0 ? take_header(bytes) : take_body(bytes);
  }
  return state_;
}

ClientHelloReader::State ClientHelloReader::take_header(std::string_view& bytes) {
  header_[header_size_++] = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  const bool first = records_ == 0;
  // Content type, version 3.x, length.
  if (header_[0] != kHandshake) return first ? State::NotTls : refuse("another record is inside the ClientHello");
  if (header_size_ >= 2 && header_[1] != 3) return first ? State::NotTls : refuse("a record has no version of TLS");
  if (header_size_ < header_.size()) return State::NeedMore;
  header_size_ = 0;
  record_left_ = static_cast<std::size_t>(header_[3]) << 8 | header_[4];
  if (record_left_ == 0 || record_left_ > kLongestRecord) return refuse("a record of the ClientHello has a bad length");
  if (++records_ > kMostRecords) return refuse("the ClientHello is cut into too many records");
  return State::NeedMore;
}

ClientHelloReader::State ClientHelloReader::take_body(std::string_view& bytes) {
  const std::size_t taken = std::min(record_left_, bytes.size());
  message_ += bytes.substr(0, taken);
  bytes.remove_prefix(taken);
  record_left_ -= taken;
  if (message_.front() != static_cast<char>(kClientHello)) return refuse("the first message is no ClientHello");
  if (message_.size() < kMessageHeader) return State::NeedMore;
  const std::size_t size = kMessageHeader + Fields(std::string_view(message_).substr(1)).number(3);
  if (size > kLongestMessage) return refuse("the ClientHello is too long");
  if (message_.size() + record_left_ > size) return refuse("bytes follow the ClientHello in its record");
  return message_.size() < size ? State::NeedMore : parse_message();
}

ClientHelloReader::State ClientHelloReader::parse_message() {
  Fields fields(std::string_view(message_).substr(kMessageHeader));
  const std::uint32_t version = fields.number(2);
  fields.bytes(kRandom);
  const std::string_view session_id = fields.block(1);
  const std::string_view ciphers = fields.block(2);
  const std::string_view compressions = fields.block(1);
  if (!fields.ok() || version >> 8 != 3 || session_id.size() > kLongestSessionId || ciphers.size() < 2 ||
      ciphers.size() % 2 != 0 || compressions.empty()) {
    return refuse("the ClientHello is malformed");
  }
  if (fields.empty()) return State::Complete;  // TLS 1.2 allows a hello without extensions
  Fields extensions(fields.block(2));
  if (!fields.finished()) return refuse("the ClientHello's extensions have a wrong length");
  std::set<std::uint32_t> seen;
  while (!extensions.empty()) {
    const std::uint32_t type = extensions.number(2);
    const std::string_view data = extensions.block(2);
    if (!extensions.ok()) return refuse("an extension of the ClientHello has a wrong length");
    if (!seen.insert(type).second) return refuse("an extension of the ClientHello is repeated");
    if (type == kServerName) {
      auto name = parse_server_name(data);
      if (!name) return refuse("the server name (SNI) is not one DNS name");
      hello_.server_name = std::move(*name);
    } else if (type == kAlpn) {
      auto protocols = parse_alpn(data);
      if (!protocols) return refuse("the list of protocols (ALPN) is malformed");
      hello_.alpn = std::move(*protocols);
    } else if (type == kEncryptedHello) {
      hello_.encrypted_hello = true;
    }
  }
  message_.clear();
  message_.shrink_to_fit();
  return State::Complete;
}

}  // namespace osb::tls
