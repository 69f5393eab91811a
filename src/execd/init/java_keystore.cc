#include "execd/init/java_keystore.h"

#include <cstdint>

#include "base/sha1.h"

namespace osb::execd {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kAlias = "opensandbox-mitmproxy";

// ---- JKS: counted fields, big endian, and a seal at the end

constexpr std::size_t kJksHead = 12, kSeal = 20;
constexpr std::string_view kJksMagic = "\xFE\xED\xFE\xED\x00\x00\x00\x02"sv;

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
  return out;
}

std::string counted(std::string_view text) { return number(text.size(), 2).append(text); }

std::string seal(std::string_view contents) {
  std::string text("\0c\0h\0a\0n\0g\0e\0i\0t"sv);
  return sha1(text.append("Mighty Aphrodite").append(contents));
}

std::string jks_entry(std::string_view certificate, const std::string& alias) {
  constexpr std::uint64_t kTrustedCertificate = 2, kSomeTime = 0;
  return number(kTrustedCertificate, 4) + counted(alias) + number(kSomeTime, 8) + counted("X.509") +
         number(certificate.size(), 4).append(certificate);
}

std::optional<std::string> add_to_jks(std::string_view store, std::string_view certificate) {
  if (store.size() < kJksHead + kSeal) return std::nullopt;
  const std::string_view contents = store.substr(0, store.size() - kSeal);
  if (seal(contents) != store.substr(contents.size())) return std::nullopt;
  std::uint32_t count = 0;
  for (const char c : contents.substr(kJksMagic.size(), 4)) count = count << 8 | static_cast<unsigned char>(c);
  std::string out = std::string(kJksMagic) + number(count + 1, 4);
  out.append(contents.substr(kJksHead)).append(jks_entry(certificate, std::string(kAlias)));
  return out + seal(out);
}

// ---- PKCS #12: DER

constexpr char kSequence = 0x30, kSet = 0x31, kOctets = 0x04, kExplicit = static_cast<char>(0xA0), kBmpString = 0x1E;
constexpr std::string_view kVersion = "\x02\x01\x03"sv;
constexpr std::string_view kData = "\x06\x09\x2A\x86\x48\x86\xF7\x0D\x01\x07\x01"sv;
constexpr std::string_view kCertificateBag = "\x06\x0B\x2A\x86\x48\x86\xF7\x0D\x01\x0C\x0A\x01\x03"sv;
constexpr std::string_view kX509 = "\x06\x0A\x2A\x86\x48\x86\xF7\x0D\x01\x09\x16\x01"sv;
constexpr std::string_view kFriendlyName = "\x06\x09\x2A\x86\x48\x86\xF7\x0D\x01\x09\x14"sv;
// Java's own attribute: without it a certificate is no trusted one.
constexpr std::string_view kTrustedUsage = "\x06\x0C\x60\x86\x48\x01\x86\xF9\x66\xAD\xCA\x7B\x01\x01"sv;
constexpr std::string_view kAnyUsage = "\x06\x04\x55\x1D\x25\x00"sv;

std::string der(char tag, std::string_view contents) {
  std::string out(1, tag);
  if (contents.size() < 128) {
    out += static_cast<char>(contents.size());
  } else {
    std::string length;
    for (std::size_t left = contents.size(); left != 0; left >>= 8) length.insert(0, 1, static_cast<char>(left & 0xFF));
    out += static_cast<char>(0x80 | length.size());
    out += length;
  }
  return out.append(contents);
}

// Takes an element of this tag off the front of `rest`, and returns its contents.
std::optional<std::string_view> take(std::string_view& rest, char tag) {
  if (rest.size() < 2 || rest[0] != tag) return std::nullopt;
  std::size_t length = static_cast<unsigned char>(rest[1]), head = 2;
  if (length > 128) {
    const std::size_t bytes = length - 128;
    if (bytes > 4 || rest.size() < head + bytes) return std::nullopt;
    length = 0;
    for (const char c : rest.substr(head, bytes)) length = length << 8 | static_cast<unsigned char>(c);
    head += bytes;
  } else if (length == 128) {
    return std::nullopt;  // of unknown length: Java writes none
  }
  if (length > rest.size() - head) return std::nullopt;
  const std::string_view contents = rest.substr(head, length);
  rest.remove_prefix(head + length);
  return contents;
}

bool take_exactly(std::string_view& rest, std::string_view bytes) {
  if (!rest.starts_with(bytes)) return false;
  rest.remove_prefix(bytes.size());
  return true;
}

std::string data_content(std::string_view contents) {
  return der(kSequence, std::string(kData) + der(kExplicit, der(kOctets, contents)));
}

std::string certificate_bag(std::string_view certificate) {
  std::string name;
  for (const char c : kAlias) name.append(1, '\0').append(1, c);
  const std::string attributes = der(kSequence, std::string(kFriendlyName) + der(kSet, der(kBmpString, name))) +
                                 der(kSequence, std::string(kTrustedUsage) + der(kSet, kAnyUsage));
  return der(kSequence,
             std::string(kCertificateBag) +
                 der(kExplicit, der(kSequence, std::string(kX509) + der(kExplicit, der(kOctets, certificate)))) +
                 der(kSet, attributes));
}

// A list of contents, of which each is a list of certificates. One more content is added.
std::optional<std::string> add_to_pkcs12(std::string_view store, std::string_view certificate) {
  auto file = take(store, kSequence);
  if (!file || !take_exactly(*file, kVersion)) return std::nullopt;
  auto outer = take(*file, kSequence);
  // A seal follows where there is a password.
  if (!outer || !file->empty() || !take_exactly(*outer, kData)) return std::nullopt;
  auto wrapped = take(*outer, kExplicit);
  auto octets = wrapped ? take(*wrapped, kOctets) : std::nullopt;
  const auto safes = octets ? take(*octets, kSequence) : std::nullopt;
  if (!safes) return std::nullopt;
  const std::string more = data_content(der(kSequence, certificate_bag(certificate)));
  return der(kSequence, std::string(kVersion) + data_content(der(kSequence, std::string(*safes) + more)));
}

}  // namespace

std::optional<std::string> add_to_keystore(std::string_view store, std::string_view certificate) {
  if (certificate.empty()) return std::nullopt;
  if (store.contains(certificate)) return std::string(store);
  return store.starts_with(kJksMagic) ? add_to_jks(store, certificate) : add_to_pkcs12(store, certificate);
}

std::string make_keystore(const std::vector<std::string>& certificates) {
  std::string out = std::string(kJksMagic) + number(certificates.size(), 4);
  for (std::size_t i = 0; i < certificates.size(); ++i) {
    out += jks_entry(certificates[i], std::string(kAlias) + "-" + std::to_string(i));
  }
  return out + seal(out);
}

}  // namespace osb::execd
