// Connections that nftables redirects, in a network namespace of the test: real clients, real addresses and ports.

#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sys/wait.h>
#include <thread>

#include <boost/asio/post.hpp>

#include "async/timer.h"
#include "intercept/interceptor_fixture.h"
#include "support/temp_dir.h"

namespace osb::intercept {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kBound = "api.example.com";
const std::string kUnbound = "pinned.example.com";
constexpr int kMark = 0x51;
constexpr const char* kServerAddress = "10.99.0.1";
constexpr const char* kServerAddress6 = "fd99::1";

// Sockets of the interceptor are not redirected to itself.
net::awaitable<Result<std::unique_ptr<http::Transport>>> dial_marked(IpAddress address, std::uint16_t port,
                                                                     std::chrono::milliseconds) {
  auto where = http::to_sockaddr(http::Address::tcp(format_ip_address(address), port));
  UniqueFd socket(::socket(where->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_MARK, &kMark, sizeof kMark) < 0 ||
      ::connect(socket.get(), where->get(), where->length) < 0) {
    co_return fail(Code::Unavailable, "connect: " + std::generic_category().message(errno));
  }
  co_return http::make_plain_transport(co_await net::this_coro::executor, std::move(socket));
}

class RedirectTest : public InterceptorTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root for a network namespace";
    home_.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    ASSERT_EQ(run("ip link set lo up && ip address add 10.99.0.1/32 dev lo && ip -6 address add fd99::1/128 dev lo "
                  "nodad"),
              "");
    rules_.bound[kBound] = "Bearer " + std::string(kSecret);
    rules_.addresses = {*parse_ip_address(kServerAddress)};
    certificate_.emplace(
        Certificate({.common_name = "server", .alt_names = "DNS:" + kBound + ",DNS:" + kUnbound}, &root_));
    for (const char* address : {kServerAddress, kServerAddress6}) {
      listen(address, 443, &*certificate_);
      listen(address, 80, nullptr);
    }
    InterceptorOptions options;
    options.dial = dial_marked;
    interceptor_.emplace(io_.get_executor(), rules_, leaves_, world_trust_, std::move(options));
    const int port = listen_redirected();
    ASSERT_EQ(run("nft -f - <<'END'\n"
                  "table inet intercepted {\n"
                  "  chain out {\n"
                  "    type nat hook output priority -100; policy accept;\n"
                  "    meta mark " +
                  std::to_string(kMark) +
                  " accept\n"
                  "    tcp dport { 80, 443 } redirect to :" +
                  std::to_string(port) +
                  "\n"
                  "  }\n"
                  "}\n"
                  "END"),
              "");
    std::ofstream(directory_.path() / "sandbox.pem") << leaves_.authority().certificate_pem();
    std::ofstream(directory_.path() / "world.pem") << root_.certificate_pem();
  }
  void TearDown() override {
    if (home_) EXPECT_EQ(::setns(home_.get(), CLONE_NEWNET), 0);
  }

  void listen(const char* address, std::uint16_t port, const Certificate* certificate) {
    http::ServerOptions options;
    if (certificate != nullptr) options.secure = tls::secure_with(*tls::ServerContext::make(certificate->identity()));
    const auto handler = [this](http::Request& request) -> net::awaitable<http::Response> {
      seen_.push_back(std::string(request.headers.get("Host")) + " " +
                      std::string(request.headers.get("Authorization")));
      co_return http::text_response(200, "hello from the server\n");
    };
    servers_.push_back(std::make_unique<http::Server>(io_.get_executor(), handler, std::move(options)));
    const auto bound = servers_.back()->listen(http::Address::tcp(address, port));
    EXPECT_TRUE(bound) << bound.error().message;
  }
  // On both families.
  int listen_redirected() {
    UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int off = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 where{};
    where.sin6_family = AF_INET6;
    socklen_t size = sizeof where;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&where), size), 0);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&where), &size), 0);
    interceptor_->listen(std::move(socket));
    port_ = ntohs(where.sin6_port);
    return port_;
  }

  // The output of a command, beside which the loop does not run.
  static std::string run(const std::string& command) {
    FILE* pipe = ::popen(("{ " + command + "\n} 2>&1").c_str(), "re");
    std::string out;
    char buffer[4096];
    for (std::size_t n; (n = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    const int status = ::pclose(pipe);
    if (status != 0) out += "[exit " + std::to_string(WEXITSTATUS(status)) + "]";
    return out;
  }
  // The same while the interceptor and the servers work. Threads begin in the namespace of their maker.
  std::string run_client(const std::string& command) {
    Event ended(io_.get_executor());
    std::string out;
    std::thread client([&] {
      out = run(command);
      net::post(io_, [&] { ended.set(); });
    });
    (void)await(io_, ended.wait());
    client.join();
    return out;
  }
  std::string curl(const std::string& host, const std::string& more, const std::string& trust,
                   const char* address = kServerAddress) {
    const std::string ip = std::string(address).contains(':') ? "[" + std::string(address) + "]" : address;
    return run_client("curl --silent --show-error --max-time 60 --noproxy '*' --cacert " +
                      (directory_.path() / trust).string() + " --resolve " + host + ":443:" + ip + " --resolve " +
                      host + ":80:" + ip + " " + more);
  }

  UniqueFd home_;
  osb::testing::TempDir directory_;
  std::optional<Certificate> certificate_;
  std::vector<std::string> seen_;
  int port_ = 0;
};

TEST_F(RedirectTest, CurlReachesABoundHostWithItsCredential) {
  EXPECT_EQ(curl(kBound, "https://" + kBound + "/", "sandbox.pem"), "hello from the server\n");
  EXPECT_EQ(curl(kBound, "http://" + kBound + "/", "sandbox.pem"), "hello from the server\n");
  EXPECT_THAT(seen_, ::testing::ElementsAre(kBound + " Bearer " + std::string(kSecret),
                                            kBound + " Bearer " + std::string(kSecret)));
}

TEST_F(RedirectTest, CurlReachesAnUnboundHostAsIfNothingWereThere) {
  EXPECT_EQ(curl(kUnbound, "https://" + kUnbound + "/", "world.pem"), "hello from the server\n");
  EXPECT_EQ(curl(kUnbound, "http://" + kUnbound + "/", "world.pem"), "hello from the server\n");
  EXPECT_EQ(curl(kUnbound, "https://" + kUnbound + "/", "world.pem", kServerAddress6), "hello from the server\n")
      << "the address before the redirection is found for IPv6 too";
  EXPECT_THAT(seen_, ::testing::ElementsAre(kUnbound + " ", kUnbound + " ", kUnbound + " "));
}

TEST_F(RedirectTest, AForgedHostGetsNoCredential) {
  const std::string answer = curl(kBound, "--header 'Host: victim.example.com' https://" + kBound + "/", "sandbox.pem");
  EXPECT_THAT(answer, HasSubstr("is not " + kBound));
  // The other way round: an allowed name in SNI, the bound one in Host.
  curl(kUnbound, "--header 'Host: " + kBound + "' https://" + kUnbound + "/", "world.pem");
  EXPECT_THAT(seen_, ::testing::ElementsAre(kBound + " ")) << "spliced, and without a credential";
}

TEST_F(RedirectTest, PythonTrustsTheLeaf) {
  const std::string program =
      "import socket, ssl\n"
      "context = ssl.create_default_context(cafile=\"" +
      (directory_.path() / "sandbox.pem").string() +
      "\")\n"
      "context.verify_flags |= ssl.VERIFY_X509_STRICT\n"
      "with socket.create_connection((\"10.99.0.1\", 443), timeout=60) as plain:\n"
      "    with context.wrap_socket(plain, server_hostname=\"" +
      kBound +
      "\") as tls:\n"
      "        tls.sendall(b\"GET / HTTP/1.1\\r\\nHost: " +
      kBound +
      "\\r\\nConnection: close\\r\\n\\r\\n\")\n"
      "        print(tls.version(), tls.recv(4096).decode().splitlines()[0])\n";
  std::ofstream(directory_.path() / "client.py") << program;
  EXPECT_EQ(run_client("/usr/bin/python3 " + (directory_.path() / "client.py").string()), "TLSv1.3 HTTP/1.1 200 OK\n");
}

TEST_F(RedirectTest, ConnectionsToTheInterceptorItselfAreClosed) {
  const std::string answer = run_client(
      "curl --silent --show-error --max-time 60 --noproxy '*' http://127.0.0.1:" + std::to_string(port_) + "/");
  EXPECT_THAT(answer, HasSubstr("[exit "));
  EXPECT_EQ(interceptor_->open_connections(), 0u);
}

}  // namespace
}  // namespace osb::intercept
