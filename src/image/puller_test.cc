#include "image/puller.h"

#include <algorithm>
#include <csignal>
#include <sys/fsuid.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/registry_fixture.h"
#include "support/temp_dir.h"
#include "tls/connector.h"
#include "tls/test_certificates.h"

namespace osb::image {
namespace {

using namespace image::testing;
using osb::testing::await;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const Credentials kPuller{"puller", "s:ecret"};

std::string busybox_tar() {
  std::ifstream in("/bin/busybox", std::ios::binary);
  const std::string program{std::istreambuf_iterator<char>(in), {}};
  return Tar()
      .directory("bin")
      .add({.name = "bin/busybox", .data = program, .mode = 0755})
      .link("bin/sh", "bin/busybox")
      .bytes();
}

class PullerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners";
    ASSERT_TRUE(fs::exists(kRegistryProgram)) << "run scripts/setup: Debian's docker-registry is missing";
    authority_.emplace(tls::testing::CertificateRequest{.common_name = "root", .alt_names = "", .authority = true});
    auto context = tls::ClientContext::make({.ca_file = {}, .ca_pem = authority_->certificate_pem(), .identity = {}});
    ASSERT_TRUE(context);
    client_ = std::make_unique<http::Client>(tls::make_connector(io_.get_executor(), *context));
    auto store = LayerStore::open(dir_ / "store");
    ASSERT_TRUE(store);
    store_ = std::move(*store);
    puller_ = std::make_unique<Puller>(io_.get_executor(), *client_, pool_, *store_);
  }
  void TearDown() override {
    if (puller_) await(io_, puller_->close());
    if (client_) client_->clear();
    io_.poll();
  }

  Result<ImageRecord> pull(const std::string& name, std::optional<Credentials> credentials = kPuller) {
    PullOptions options;
    options.access.credentials = std::move(credentials);
    options.access.retries = 0;
    options.progress = [this](const PullProgress& p) { progress_.push_back(p); };
    return await(io_, puller_->pull(*Reference::parse(name), options));
  }

  static TestImage three_layers() {
    const std::string base = busybox_tar(), second = Tar().file("etc/two", "2").bytes(),
                      third = Tar().file("etc/.wh.two", "").bytes();
    return {"demo/box:1", {gzip(base), zstd(second), third}, {base, second, third}};
  }

  osb::testing::TempDir dir_;
  net::io_context io_{1};
  BlockingPool pool_{4};
  std::optional<tls::testing::Certificate> authority_;
  std::unique_ptr<http::Client> client_;
  std::unique_ptr<LayerStore> store_;
  std::unique_ptr<Puller> puller_;
  std::vector<PullProgress> progress_;
};

TEST_F(PullerTest, AnImageComesFromARealRegistryWithItsLayers) {
  DockerRegistry registry(dir_ / "registry");
  const TestImage image = three_layers();
  const Digest manifest = registry.push(io_, *client_, image);
  const auto got = pull(registry.host() + "/demo/box:1");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->manifest, manifest);
  ASSERT_EQ(got->diff_ids.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got->diff_ids[i], Digest::of(image.tars[i]));
  const auto base = store_->find(got->diff_ids[0]);
  ASSERT_TRUE(base);
  EXPECT_EQ(fs::file_size(base->root() / "bin/sh"), fs::file_size("/bin/busybox"));
  EXPECT_EQ(decode_image_config(got->config)->cmd.at(0), "sh");
  const auto done = std::ranges::count(progress_, PullProgress::Stage::Done, &PullProgress::stage);
  EXPECT_EQ(done, 3);
  EXPECT_TRUE(std::ranges::any_of(progress_, [&](const PullProgress& p) {
    return p.layer == got->diff_ids[0] && p.stage == PullProgress::Stage::Downloading && p.bytes == p.total;
  }));
  EXPECT_TRUE(fs::is_empty(dir_ / "store/tmp"));

  progress_.clear();
  const auto by_digest = pull(registry.host() + "/demo/box@" + manifest.to_string());
  ASSERT_TRUE(by_digest) << by_digest.error().message;
  EXPECT_TRUE(
      std::ranges::none_of(progress_, [](const PullProgress& p) { return p.stage != PullProgress::Stage::Done; }));
  EXPECT_EQ(store_->images().size(), 2u);
}

TEST_F(PullerTest, ADownloadIsRemovedByAThreadOfThePoolNotByTheLoop) {
  DockerRegistry registry(dir_ / "registry");
  registry.push(io_, *client_, three_layers());
  const fs::path tmp = dir_ / "store/tmp";
  BlockingPool one(1);
  await(io_, one.run([] {}));  // its only thread exists, with the rights of now
  Puller puller(io_.get_executor(), *client_, one, *store_);
  PullOptions options;
  options.access.credentials = kPuller;
  options.parallel = 1;
  // From the end of a download on, this thread cannot remove what is root's.
  std::size_t done = 0, left = 0;
  options.progress = [&](const PullProgress& p) {
    if (p.stage == PullProgress::Stage::Unpacking) ::setfsuid(65534);
    if (p.stage != PullProgress::Stage::Done) return;
    ::setfsuid(0);
    ++done;
    left += static_cast<std::size_t>(std::distance(fs::directory_iterator(tmp), {}));
  };
  const auto got = await(io_, puller.pull(*Reference::parse(registry.host() + "/demo/box:1"), options));
  ::setfsuid(0);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(done, 3u);
  EXPECT_EQ(left, 0u);
  await(io_, puller.close());
}

TEST_F(PullerTest, AnIndexLeadsToThisPlatform) {
  DockerRegistry registry(dir_ / "registry");
  const Digest manifest = registry.push(io_, *client_, three_layers());
  registry.push_index(io_, *client_, "demo/box", "many", manifest, 1);
  const auto got = pull(registry.host() + "/demo/box:many");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->manifest, manifest);
}

TEST_F(PullerTest, TlsAndItsAuthorityAreUsed) {
  const tls::testing::Certificate leaf({.common_name = "registry", .alt_names = "IP:127.0.0.1"}, &*authority_);
  DockerRegistry registry(dir_ / "registry", leaf.certificate_pem(), leaf.key_pem());
  registry.push(io_, *client_, three_layers());
  const auto got = pull(registry.host() + "/demo/box:1");
  ASSERT_TRUE(got) << got.error().message;
}

TEST_F(PullerTest, MissingAndForbiddenImagesAreReported) {
  DockerRegistry registry(dir_ / "registry");
  registry.push(io_, *client_, three_layers());
  const std::string box = registry.host() + "/demo/box";
  EXPECT_EQ(pull(box + ":1", Credentials{"puller", "wrong"}).error().code, Code::Unauthorized);
  EXPECT_EQ(pull(box + ":1", std::nullopt).error().code, Code::Unauthorized);
  EXPECT_EQ(pull(box + ":2").error().code, Code::NotFound);
  EXPECT_EQ(pull(registry.host() + "/no/such").error().code, Code::NotFound);
  EXPECT_EQ(pull("127.0.0.1:1/a").error().code, Code::Unavailable);
  EXPECT_TRUE(store_->images().empty());
  EXPECT_EQ(store_->usage().layers, 0u);
}

TEST_F(PullerTest, ABlobThatChangedInTheRegistryIsRefused) {
  DockerRegistry registry(dir_ / "registry");
  const TestImage image = three_layers();
  registry.push(io_, *client_, image);
  const std::string hex = Digest::of(image.layers[1]).hex();
  const fs::path blob = registry.data() / "docker/registry/v2/blobs/sha256" / hex.substr(0, 2) / hex / "data";
  ASSERT_TRUE(fs::exists(blob));
  std::string other = image.layers[1];
  other.back() = static_cast<char>(other.back() ^ 1);
  std::ofstream(blob, std::ios::trunc) << other;
  const auto got = pull(registry.host() + "/demo/box:1");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::InvalidRequest) << got.error().message;
  EXPECT_THAT(got.error().message, HasSubstr(hex));
  EXPECT_TRUE(store_->images().empty());
  EXPECT_FALSE(store_->find(Digest::of(image.tars[1])));
}

TEST_F(PullerTest, TwoPullsOfOneImageDownloadItOnce) {
  DockerRegistry registry(dir_ / "registry");
  registry.push(io_, *client_, three_layers());
  std::map<Digest, int> unpacked;
  PullOptions options;
  options.access.credentials = kPuller;
  options.progress = [&](const PullProgress& p) { unpacked[p.layer] += p.stage == PullProgress::Stage::Unpacking; };
  const Reference name = *Reference::parse(registry.host() + "/demo/box:1");
  auto first = net::co_spawn(io_, puller_->pull(name, options), net::use_future);
  const auto second = await(io_, puller_->pull(name, options));
  ASSERT_TRUE(second) << second.error().message;
  io_.restart();
  while (first.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(first.get());
  ASSERT_EQ(unpacked.size(), 3u);
  for (const auto& [layer, times] : unpacked) EXPECT_EQ(times, 1) << layer.to_string();
}

}  // namespace
}  // namespace osb::image
