#include "tls/authority.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "sys/replace_file.h"
#include "sys/syscall.h"
#include "sys/text_file.h"
#include "tls/host_name.h"
#include "tls/openssl.h"

namespace osb::tls {
namespace {

constexpr int kAuthorityDays = 3650;
constexpr long kHour = 3600;
constexpr std::size_t kLargestFile = 64 * 1024;
constexpr const char* kAuthorityName = "OpenSandbox credential authority";
// Names of hosts may be longer than a common name can be; clients look at the alternative names only.
constexpr const char* kLeafName = "OpenSandbox credential vault";

Failure openssl_failure(const char* doing) {
  return fail(Code::Internal, std::string(doing) + ": " + take_openssl_error());
}

// A text with a private key, wiped when it goes.
struct SecretText {
  std::string text;
  ~SecretText() { OPENSSL_cleanse(text.data(), text.size()); }
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string to_pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return text_of(bio.get());
}

std::string to_pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_secmem()));
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio.get());
}

// Random, as RFC 5280 wants it: clients refuse two certificates of one authority with the same number.
bool set_serial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  bytes[0] &= 0x7f;  // positive
  bytes[0] |= 0x40;  // and of one length
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  const bool set = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// Not through OpenSSL's text form, in which a comma would begin another name.
bool add_host(X509* certificate, std::string_view host) {
  GENERAL_NAMES* names = sk_GENERAL_NAME_new_null();
  GENERAL_NAME* name = GENERAL_NAME_new();
  ASN1_IA5STRING* text = ASN1_IA5STRING_new();
  ASN1_STRING_set(text, host.data(), static_cast<int>(host.size()));
  GENERAL_NAME_set0_value(name, GEN_DNS, text);
  sk_GENERAL_NAME_push(names, name);
  const bool added = X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1;
  GENERAL_NAMES_free(names);
  return added;
}

// A certificate without its extensions and signature.
X509Ptr new_certificate(const char* name, EVP_PKEY* key, int days) {
  X509Ptr certificate(X509_new());
  X509* x = certificate.get();
  if (x == nullptr || X509_set_version(x, X509_VERSION_3) != 1 || !set_serial(x)) return nullptr;
  // Clocks of virtual machines are late after a pause.
  if (X509_gmtime_adj(X509_getm_notBefore(x), -kHour) == nullptr ||
      X509_time_adj_ex(X509_getm_notAfter(x), days, 0, nullptr) == nullptr || X509_set_pubkey(x, key) != 1) {
    return nullptr;
  }
  const auto* text = reinterpret_cast<const unsigned char*>(name);
  X509_NAME* subject = X509_get_subject_name(x);
  return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, -1, -1, 0) == 1 ? std::move(certificate)
                                                                                        : nullptr;
}

// Never prompts: without this OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

Result<void> check_private(int file, const std::string& name) {
  struct stat info{};
  if (::fstat(file, &info) < 0) return sys::from_errno("stat " + name, errno);
  if (!S_ISREG(info.st_mode)) return fail(Code::InvalidRequest, name + " is not a regular file");
  if (info.st_uid != ::geteuid()) {
    return fail(Code::Forbidden, name + " belongs to another user, who could read the key: remove it");
  }
  if ((info.st_mode & 077) != 0) {
    return fail(Code::Forbidden, name + " can be read by other users: remove it, its key is no secret any more");
  }
  return {};
}

}  // namespace

struct CertificateAuthority::Keys {
  PkeyPtr key;
  X509Ptr certificate;
};

CertificateAuthority::CertificateAuthority(std::unique_ptr<Keys> keys) : keys_(std::move(keys)) {}
CertificateAuthority::CertificateAuthority(CertificateAuthority&&) noexcept = default;
CertificateAuthority& CertificateAuthority::operator=(CertificateAuthority&&) noexcept = default;
CertificateAuthority::~CertificateAuthority() = default;

Result<CertificateAuthority> CertificateAuthority::create() {
  ERR_clear_error();
  PkeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failure("make the authority's key");
  X509Ptr certificate = new_certificate(kAuthorityName, key.get(), kAuthorityDays);
  X509* x = certificate.get();
  if (x == nullptr || X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 ||
      !add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(x, x, NID_subject_key_identifier, "hash") || X509_sign(x, key.get(), EVP_sha256()) == 0) {
    return openssl_failure("make the authority's certificate");
  }
  return CertificateAuthority(std::make_unique<Keys>(std::move(key), std::move(certificate)));
}

Result<CertificateAuthority> CertificateAuthority::parse(std::string_view secret_pem) {
  ERR_clear_error();
  // Each is looked for from the beginning, so that their order does not matter.
  const auto bio = [&] { return BioPtr(BIO_new_mem_buf(secret_pem.data(), static_cast<int>(secret_pem.size()))); };
  PkeyPtr key(PEM_read_bio_PrivateKey(bio().get(), nullptr, no_passphrase, nullptr));
  if (!key) return fail(Code::InvalidRequest, "the authority has no usable key: " + take_openssl_error());
  X509Ptr certificate(PEM_read_bio_X509(bio().get(), nullptr, no_passphrase, nullptr));
  if (!certificate) return fail(Code::InvalidRequest, "the authority has no certificate: " + take_openssl_error());
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return fail(Code::InvalidRequest, "the authority's key does not belong to its certificate");
  }
  if (X509_check_ca(certificate.get()) != 1) {
    return fail(Code::InvalidRequest, "the authority's certificate may not sign others");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return fail(Code::InvalidRequest, "the authority's certificate has expired: remove it, a new one is made");
  }
  return CertificateAuthority(std::make_unique<Keys>(std::move(key), std::move(certificate)));
}

Result<CertificateAuthority> CertificateAuthority::load_or_create(const std::filesystem::path& file) {
  const std::string name = file.string();
  auto existing = sys::open_at(AT_FDCWD, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (existing) {
    if (auto checked = check_private(existing->get(), name); !checked) return Failure(checked.error());
    auto text = sys::read_text(existing->get(), name, kLargestFile);
    if (!text) return Failure(text.error());
    const SecretText secret{std::move(*text)};
    auto parsed = parse(secret.text);
    if (!parsed) return with_context(name, parsed.error());
    return parsed;
  }
  if (existing.error().code != Code::NotFound) return Failure(existing.error());
  auto made = create();
  if (!made) return made;
  const SecretText secret{made->secret_pem()};
  if (auto written = sys::replace_file(file, secret.text); !written) return Failure(written.error());
  return made;
}

std::string CertificateAuthority::certificate_pem() const { return to_pem(keys_->certificate.get()); }

std::string CertificateAuthority::secret_pem() const {
  const SecretText key{to_pem(keys_->key.get())};
  std::string out;
  const std::string certificate = certificate_pem();
  out.reserve(key.text.size() + certificate.size());  // growing would leave copies of the key behind
  return out.append(key.text).append(certificate);
}

Result<std::shared_ptr<const ServerContext>> CertificateAuthority::issue(std::string_view host) const {
  const auto name = parse_dns_name(host);
  if (!name) return fail(Code::InvalidRequest, "no certificate can be made for \"" + std::string(host) + "\"");
  ERR_clear_error();
  const PkeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failure("make a key");
  const X509Ptr certificate = new_certificate(kLeafName, key.get(), kLeafDays);
  X509* x = certificate.get();
  X509* issuer = keys_->certificate.get();
  if (x == nullptr || X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1 ||
      !add_extension(x, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(x, issuer, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(x, issuer, NID_ext_key_usage, "serverAuth") ||
      !add_extension(x, issuer, NID_authority_key_identifier, "keyid:always") ||
      !add_extension(x, issuer, NID_subject_key_identifier, "hash") || !add_host(x, *name) ||
      X509_sign(x, keys_->key.get(), EVP_sha256()) == 0) {
    return openssl_failure(("make a certificate for " + *name).c_str());
  }
  return ServerContext::make(x, issuer, key.get());
}

}  // namespace osb::tls
