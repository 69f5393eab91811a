#include "image/registry_push.h"

#include <fstream>

#include <gmock/gmock.h>

#include "http/http_fixture.h"
#include "image/archive_fixture.h"
#include "image/registry_fixture.h"
#include "support/temp_dir.h"
#include "tls/connector.h"

namespace osb::image {
namespace {

using namespace image::testing;
using osb::testing::await;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kBase = Tar().directory("etc").file("etc/base", std::string(3'000'000, 'b')).bytes();
const std::string kTop = Tar().file("etc/top", "top").bytes();

// An archive that comes in pieces.
class Pieces final : public http::BodySource {
 public:
  explicit Pieces(std::string bytes) : bytes_(std::move(bytes)) {}
  net::awaitable<Result<std::string_view>> read() override {
    const std::string_view piece = std::string_view(bytes_).substr(at_, 70'001);
    at_ += piece.size();
    co_return piece;
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }

 private:
  const std::string bytes_;
  std::size_t at_ = 0;
};

class RegistryPush : public http::testing::HttpFixture {
 protected:
  ~RegistryPush() override { client_.clear(); }

  Result<Digest> push(const std::string& archive, const std::string& name, std::optional<Credentials> who) {
    const fs::path scratch = dir_ / "scratch";
    fs::remove_all(scratch);
    fs::create_directories(scratch);
    Pieces source(archive);
    PushOptions options;
    options.access = {.credentials = std::move(who), .plain_http = plain_, .retries = 0};
    options.scratch = scratch;
    return await(io, push_archive(client_, pool_, *Reference::parse(name), std::move(options), source));
  }

  osb::testing::TempDir dir_;
  BlockingPool pool_{2};
  http::Client client_{tls::make_connector(io.get_executor())};
  bool plain_ = false;  // only where no real registry answers
};

const Credentials kUser{"puller", "s:ecret"};

TEST_F(RegistryPush, AnArchiveArrivesWholeAndCanBePulled) {
  ASSERT_TRUE(fs::exists(kRegistryProgram)) << "run scripts/setup: Debian's docker-registry is missing";
  DockerRegistry registry(dir_ / "registry");
  const std::string name = registry.host() + "/team/warm:1";
  const std::string archive = docker_archive("", {kBase, kTop}).bytes();
  const auto pushed = push(archive, name, kUser);
  ASSERT_TRUE(pushed) << pushed.error().message;
  // The same again finds its blobs there.
  const auto again = push(archive, name, kUser);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *pushed);

  RegistryClient reader(client_, pool_, *Reference::parse(name), {.credentials = kUser, .retries = 0});
  const auto image = await(io, reader.resolve(host_platform()));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->digest, *pushed);
  EXPECT_EQ(image->config.diff_ids, (std::vector{Digest::of(kBase), Digest::of(kTop)}));
  ASSERT_TRUE(await(io, reader.download(image->manifest.layers[0], dir_ / "layer", {})));
  std::ifstream in(dir_ / "layer", std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(in), {}) == kBase);
}

TEST_F(RegistryPush, CompressedLayersKeepTheirForm) {
  ASSERT_TRUE(fs::exists(kRegistryProgram)) << "run scripts/setup: Debian's docker-registry is missing";
  DockerRegistry registry(dir_ / "registry");
  const std::string config = config_for({kTop}), layer = gzip(kTop);
  const std::string archive = Tar()
                                  .file("a", layer)
                                  .file("c.json", config)
                                  .file("manifest.json", R"([{"Config":"c.json","RepoTags":null,"Layers":["a"]}])")
                                  .bytes();
  const std::string name = registry.host() + "/a/b:latest";
  const auto pushed = push(archive, name, kUser);
  ASSERT_TRUE(pushed) << pushed.error().message;
  RegistryClient reader(client_, pool_, *Reference::parse(name), {.credentials = kUser, .retries = 0});
  const auto image = await(io, reader.resolve(host_platform()));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->manifest.layers[0].media_type, "application/vnd.oci.image.layer.v1.tar+gzip");
}

TEST_F(RegistryPush, WrongCredentialsAreToldWithoutThem) {
  ASSERT_TRUE(fs::exists(kRegistryProgram)) << "run scripts/setup: Debian's docker-registry is missing";
  DockerRegistry registry(dir_ / "registry");
  const std::string archive = docker_archive("", {kTop}).bytes();
  for (const std::optional<Credentials>& who :
       {std::optional<Credentials>(), std::optional(Credentials{"puller", "guess-1"})}) {
    const auto refused = push(archive, registry.host() + "/team/warm:1", who);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unauthorized) << refused.error().message;
    EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("guess-1")));
  }
}

TEST_F(RegistryPush, BadArchivesAreRefused) {
  for (const auto& [bytes, why] :
       {std::pair(Tar().file("x", "y").bytes(), "manifest.json"),
        std::pair(Tar().file("manifest.json", "[]").bytes(), ""), std::pair(std::string(2048, 'x'), "archive"),
        std::pair(docker_archive("", {kTop}).bytes().substr(0, 700), "archive")}) {
    const auto refused = push(bytes, "127.0.0.1:1/a/b:1", std::nullopt);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::InvalidRequest) << refused.error().message;
    EXPECT_THAT(refused.error().message, HasSubstr(why));
  }
}

TEST_F(RegistryPush, UploadsAreSentToNoOtherHost) {
  serve([](http::Request& request) -> net::awaitable<http::Response> {
    http::Response response;
    response.status = request.method == "HEAD" ? 404 : 202;
    response.headers.set("Location", "http://127.0.0.1:9/v2/a/b/blobs/uploads/1");
    co_return response;
  });
  plain_ = true;
  const auto refused = push(docker_archive("", {kTop}).bytes(), address.to_string() + "/a/b:1", std::nullopt);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Forbidden);
  EXPECT_THAT(refused.error().message, HasSubstr("another host"));
}

}  // namespace
}  // namespace osb::image
