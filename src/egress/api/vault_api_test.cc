#include "egress/api/vault_api.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "support/await.h"

namespace osb::egress {
namespace {

class VaultTransport : public ::testing::Test {
 protected:
  // The status of a DELETE without a vault: 404 if the transport is good.
  int status(VaultOptions options, std::string peer, std::string proto = "") {
    options.intercepted = [](const Sandbox&) { return true; };
    options.proxy_up = [] { return true; };
    ChangeTurns turns(io_.get_executor());
    VaultAudit audit;
    VaultApi api(turns, audit, std::move(options));
    http::Request request;
    request.method = "DELETE";
    request.target = "/credential-vault";
    request.peer = std::move(peer);
    if (!proto.empty()) request.headers.set("X-Forwarded-Proto", std::move(proto));
    return osb::testing::await(io_, api.handle(std::make_shared<Sandbox>(io_.get_executor()), request)).status;
  }

  net::io_context io_;
};

TEST_F(VaultTransport, PlainHttpFromElsewhereIsGoodUnlessTlsIsRequired) {
  EXPECT_EQ(status({}, "10.0.0.1"), 404);
  EXPECT_EQ(status({.require_tls = true}, "10.0.0.1"), 426);
  EXPECT_EQ(status({.require_tls = true}, "10.0.0.1", "https"), 426);
  EXPECT_EQ(status({.require_tls = true}, ""), 426);
}

TEST_F(VaultTransport, ThisMachineAndTheControlPlaneAreTrusted) {
  for (const char* peer : {"127.0.0.1", "127.9.9.9", "::1", "unix"}) {
    EXPECT_EQ(status({.require_tls = true}, peer), 404) << peer;
  }
  EXPECT_EQ(status({.require_tls = true}, "::2"), 426);
}

TEST_F(VaultTransport, TrustedProxiesAreBelievedAboutHttps) {
  const VaultOptions options{.require_tls = true, .trusted_proxies = {*parse_ip_prefix("10.0.0.0/8")}};
  EXPECT_EQ(status(options, "10.1.2.3", "https"), 404);
  EXPECT_EQ(status(options, "10.1.2.3", "http"), 426);
  EXPECT_EQ(status(options, "10.1.2.3"), 426);
  EXPECT_EQ(status(options, "11.1.2.3", "https"), 426);
}

TEST_F(VaultTransport, CertificatesOfServersMustBeVerified) {
  EXPECT_EQ(status({.verifies_upstream = false, .require_tls = true}, "10.0.0.1"), 412);
}

}  // namespace
}  // namespace osb::egress
