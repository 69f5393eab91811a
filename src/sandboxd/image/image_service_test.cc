#include "sandboxd/image/image_service.h"

#include <fstream>
#include <sys/mount.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/signals.h"
#include "image/archive_fixture.h"
#include "image/registry_fixture.h"
#include "support/temp_dir.h"
#include "tls/connector.h"
#include "tls/test_certificates.h"

namespace osb::sandboxd {
namespace {

using namespace image::testing;
using image::Digest;
using image::PullProgress;
using osb::testing::await;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const RegistryAuth kAuth = image::Credentials{"puller", "s:ecret"};
const std::string kBase = Tar().directory("bin").file("bin/sh", std::string(200'000, 'x')).bytes();
const std::string kTop = Tar().file("etc/top", "top").bytes();

// A body that comes in pieces, and may break off.
class Body final : public http::BodySource {
 public:
  explicit Body(std::string bytes, bool breaks = false) : bytes_(std::move(bytes)), breaks_(breaks) {}
  net::awaitable<Result<std::string_view>> read() override {
    const std::string_view piece = std::string_view(bytes_).substr(at_, 10'000);
    at_ += piece.size();
    if (piece.empty() && breaks_) co_return fail(Code::Unavailable, "the peer has gone");
    co_return piece;
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
  bool breaks_;
};

class Collector final : public http::BodyWriter {
 public:
  using BodyWriter::write;
  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    if (text.size() >= limit) co_return fail(Code::Unavailable, "the peer has gone");
    for (const std::string_view piece : pieces) text += piece;
    co_return Result<void>();
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>(); }
  net::awaitable<void> peer_closed() override { co_return; }
  std::string text;
  std::size_t limit = std::size_t{1} << 40;
};

// A peer that takes its first piece when it is told to.
class Stuck final : public http::BodyWriter {
 public:
  explicit Stuck(net::any_io_executor executor) : go(executor) {}
  using BodyWriter::write;
  net::awaitable<Result<void>> write(std::span<const std::string_view>) override {
    waiting = true;
    if (!co_await go.wait()) co_return fail(Code::Cancelled, "cancelled");
    co_return Result<void>();
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>(); }
  net::awaitable<void> peer_closed() override { co_return; }
  Event go;
  bool waiting = false;
};

// A body that never comes.
class Silent final : public http::BodySource {
 public:
  explicit Silent(net::any_io_executor executor) : never_(executor) {}
  net::awaitable<Result<std::string_view>> read() override {
    waiting = true;
    (void)co_await never_.wait();
    co_return fail(Code::Cancelled, "cancelled");
  }
  std::optional<std::uint64_t> length() const override { return std::nullopt; }
  bool waiting = false;

 private:
  Event never_;
};

class ImageServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: layers keep owners";
    ignore_sigpipe();
    config_.directory = dir_ / "images";
    config_.allowed_directories = {dir_ / "allowed"};
    config_.registries.private_places = {*image::RegistryName::parse("127.0.0.1:*")};
    fs::create_directory(dir_ / "allowed");
    start();
  }
  void TearDown() override { stop(); }
  void start() {
    auto made = ImageService::open(io_.get_executor(), config_);
    ASSERT_TRUE(made) << made.error().message;
    service_ = std::move(*made);
  }
  void stop() {
    if (service_) await(io_, service_->close());
    service_.reset();
    io_.restart();
    io_.poll();
  }

  // The registry, with demo/box:1 in it.
  DockerRegistry& registry() {
    if (!registry_) {
      registry_.emplace(dir_ / "registry");
      http::Client client(tls::make_connector(io_.get_executor()));
      registry_->push(io_, client, {"demo/box:1", {gzip(kBase), kTop}, {kBase, kTop}});
    }
    return *registry_;
  }
  std::string box() { return registry().host() + "/demo/box:1"; }

  Result<ResolvedImage> ensure(const std::string& name, PullPolicy policy = PullPolicy::Missing,
                               RegistryAuth auth = kAuth) {
    return await(io_, service_->ensure(name, policy, std::move(auth)));
  }
  Result<std::vector<ImageInfo>> load(const std::string& bytes, std::optional<std::string> name = std::nullopt) {
    Body body(bytes);
    return await(io_, service_->load(body, std::move(name)));
  }
  void restart_with(TransferLimits transfers) {
    stop();
    config_.transfers = transfers;
    start();
  }
  // More than fits into the pipe, so that the thread that writes it has to wait for its reader.
  net::awaitable<Result<void>> send(http::BodyWriter& to) {
    return service_->send_archive("big", [](image::ByteSink sink) { return sink(std::string(4 << 20, 'x')); }, to);
  }
  // Runs the loop until then.
  template <typename Condition>
  void run_until(Condition condition) {
    io_.restart();
    while (!condition()) io_.run_one();
  }
  template <typename T>
  T finish(std::future<T>& future) {
    run_until([&] { return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    return future.get();
  }
  void expect_clean() { EXPECT_TRUE(fs::is_empty(config_.directory / "tmp")); }

  osb::testing::TempDir dir_;
  net::io_context io_{1};
  ImageServiceConfig config_;
  std::optional<DockerRegistry> registry_;
  std::unique_ptr<ImageService> service_;
};

TEST_F(ImageServiceTest, TheHostNeedsNoDownloadAndCannotBeTaken) {
  const auto host = ensure("host", PullPolicy::Always);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->kind, ResolvedImage::Kind::Host);
  EXPECT_TRUE(host->layers.empty());
  EXPECT_THAT(host->config.env.at(0), HasSubstr("PATH="));
  EXPECT_EQ(service_->pull("host", {}).error().code, Code::InvalidRequest);
  EXPECT_EQ(load(docker_archive("a:1", {kBase}).bytes(), "host").error().code, Code::InvalidRequest);
}

TEST_F(ImageServiceTest, AnImageIsPulledOnceAndThenFound) {
  const auto got = ensure(box());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->kind, ResolvedImage::Kind::Layers);
  EXPECT_EQ(got->config.cmd.at(0), "sh");
  ASSERT_EQ(got->layers.size(), 2u);
  EXPECT_EQ(got->layers[0].diff_id(), Digest::of(kTop)) << "top first";
  EXPECT_EQ(got->layers[1].diff_id(), Digest::of(kBase));
  const std::string name = box();
  registry_.reset();
  EXPECT_TRUE(ensure(name)) << "the registry has gone, the image has not";
  EXPECT_TRUE(ensure(name, PullPolicy::Never));
  EXPECT_EQ(ensure(name, PullPolicy::Always).error().code, Code::Unavailable);
  expect_clean();
}

TEST_F(ImageServiceTest, ErrorsSayWhatIsWrong) {
  const auto missing = ensure("nothing:here", PullPolicy::Never);
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("nothing:here"));
  EXPECT_EQ(ensure("UPPER CASE").error().code, Code::InvalidRequest);
  EXPECT_EQ(ensure(registry().host() + "/demo/none:1").error().code, Code::NotFound);
  EXPECT_EQ(ensure(box(), PullPolicy::Missing, std::nullopt).error().code, Code::Unauthorized);
  EXPECT_EQ(service_->inspect("x").error().code, Code::NotFound);
  EXPECT_EQ(await(io_, service_->remove("x", true)).error().code, Code::NotFound);
  EXPECT_TRUE(service_->list().empty());
  expect_clean();
}

TEST_F(ImageServiceTest, CallersOfOneImageShareAPullAndACancelledOneLeavesTheOthersAlone) {
  const std::string name = box();
  int unpacked = 0;
  bool cancelled_told = false;
  net::cancellation_signal cancel;
  // The first one starts the pull and is cancelled at its first sign of life.
  net::co_spawn(
      io_,
      [&]() -> net::awaitable<void> {
        const auto got = co_await service_->ensure(name, PullPolicy::Always, kAuth, [&](const PullProgress&) {
          cancel.emit(net::cancellation_type::terminal);
        });
        cancelled_told = !got && got.error().code == Code::Cancelled;
      },
      net::bind_cancellation_slot(cancel.slot(), net::detached));
  const auto count = [&](const PullProgress& p) { unpacked += p.stage == PullProgress::Stage::Unpacking; };
  auto second = net::co_spawn(io_, service_->ensure(name, PullPolicy::Always, kAuth, count), net::use_future);
  const auto third = await(io_, service_->ensure(name, PullPolicy::Missing, kAuth));
  ASSERT_TRUE(third) << third.error().message;
  while (second.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(cancelled_told);
  EXPECT_EQ(unpacked, 2) << "each layer once";
}

TEST_F(ImageServiceTest, APullCanBeWatchedToItsEnd) {
  auto pull = service_->pull(box(), kAuth);
  ASSERT_TRUE(pull) << pull.error().message;
  std::map<Digest, PullProgress> last;
  for (;;) {
    const auto next = await(io_, (*pull)->next());
    ASSERT_TRUE(next);
    if (!*next) break;
    last.insert_or_assign((*next)->layer, **next);
  }
  ASSERT_EQ(last.size(), 2u);
  for (const auto& [layer, progress] : last) {
    EXPECT_EQ(progress.stage, PullProgress::Stage::Done);
    EXPECT_EQ(progress.bytes, progress.total);
  }
  const auto made = (*pull)->result();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->familiar, box());
  auto failing = service_->pull(registry().host() + "/no/such", kAuth);
  ASSERT_TRUE(failing);
  EXPECT_EQ(await(io_, (*failing)->next()).value(), std::nullopt);
  EXPECT_EQ((*failing)->result().error().code, Code::NotFound);
}

TEST_F(ImageServiceTest, AServiceThatClosesEndsItsPulls) {
  auto pull = service_->pull(box(), kAuth);
  ASSERT_TRUE(pull);
  await(io_, service_->close());
  EXPECT_TRUE(await(io_, (*pull)->next()));
  EXPECT_EQ((*pull)->result().error().code, Code::Cancelled);
  pull->reset();
  service_.reset();
}

TEST_F(ImageServiceTest, PlainHttpIsForListedRegistries) {
  // 127.0.0.1 spelled so that it does not look like this machine.
  const std::string port = registry().host().substr(registry().host().rfind(':'));
  const std::string stranger = "[::ffff:7f00:1]" + port;
  const auto refused = ensure(stranger + "/demo/box:1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Forbidden) << refused.error().message;
  stop();
  config_.registries.insecure = {*image::RegistryName::parse(stranger)};
  start();
  const auto got = ensure(stranger + "/demo/box:1");
  EXPECT_TRUE(got) << got.error().message;
}

TEST_F(ImageServiceTest, ARegistryOnThisMachineIsAskedOnlyIfListed) {
  const std::string port = registry().host().substr(registry().host().rfind(':'));
  stop();
  config_.registries.private_places = {*image::RegistryName::parse("127.0.0.1:1")};
  start();
  for (const char* host : {"127.0.0.1", "localhost", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "0x7f000001.",
                           "127.0.0.1.", "LOCALHOST"}) {
    const auto open = ensure(host + port + "/demo/box:1");
    ASSERT_FALSE(open) << host;
    EXPECT_TRUE(open.error().code == Code::Forbidden || open.error().code == Code::NotFound ||
                open.error().code == Code::InvalidRequest)
        << host << ": " << open.error().message;
  }
  // A port where something listens and one where nothing does.
  std::string open = ensure("127.0.0.1" + port + "/demo/box:1").error().message;
  const std::string closed = ensure("127.0.0.1:9/demo/box:1").error().message;
  for (std::size_t at; (at = open.find(port)) != std::string::npos;) open.replace(at, port.size(), ":9");
  EXPECT_EQ(open, closed);
}

TEST_F(ImageServiceTest, AnAuthorityOfOnesOwnIsTrusted) {
  const tls::testing::Certificate authority({.common_name = "root", .alt_names = "", .authority = true});
  const tls::testing::Certificate leaf({.common_name = "registry", .alt_names = "IP:127.0.0.1"}, &authority);
  DockerRegistry secure(dir_ / "secure", leaf.certificate_pem(), leaf.key_pem());
  {
    auto context = tls::ClientContext::make({.ca_file = {}, .ca_pem = authority.certificate_pem(), .identity = {}});
    http::Client client(tls::make_connector(io_.get_executor(), *context));
    secure.push(io_, client, {"demo/box:1", {kTop}, {kTop}});
  }
  const std::string name = secure.host() + "/demo/box:1";
  EXPECT_EQ(ensure(name).error().code, Code::Unavailable) << "its certificate is not trusted";
  stop();
  std::ofstream(dir_ / "ca.pem") << authority.certificate_pem();
  config_.ca_file = dir_ / "ca.pem";
  start();
  const auto got = ensure(name);
  EXPECT_TRUE(got) << got.error().message;
}

TEST_F(ImageServiceTest, AnArchiveIsLoadedFromABodyOrAFile) {
  const auto made = load(docker_archive("demo:1", {kBase, kTop}).bytes());
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->size(), 1u);
  EXPECT_EQ(made->front().familiar, "demo:1");
  EXPECT_GT(made->front().bytes, 200'000u);
  EXPECT_TRUE(ensure("demo:1", PullPolicy::Never));
  std::ofstream(dir_ / "a.tar", std::ios::binary) << gzip(oci_archive("", {kTop}, {zstd(kTop)}).bytes());
  auto file = sys::open_at(AT_FDCWD, (dir_ / "a.tar").string(), O_RDONLY);
  const auto second = await(io_, service_->load(std::move(*file), "named:2"));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(service_->list().size(), 2u);
}

TEST_F(ImageServiceTest, AnArchiveThatBreaksOffLeavesNothing) {
  const std::string whole = docker_archive("demo:1", {kBase, kTop}).bytes();
  Body breaks(whole.substr(0, 60'000), true);
  const auto got = await(io_, service_->load(breaks, std::nullopt));
  EXPECT_EQ(got.error().code, Code::Unavailable) << got.error().message;
  EXPECT_THAT(got.error().message, HasSubstr("the peer has gone"));
  EXPECT_EQ(load(whole.substr(0, 60'000)).error().code, Code::InvalidRequest);
  EXPECT_EQ(load(std::string(5'000'000, 'x')).error().code, Code::InvalidRequest) << "refused long before its end";
  EXPECT_TRUE(service_->list().empty());
  EXPECT_EQ(service_->store().usage().layers, 0u);
  expect_clean();
}

TEST_F(ImageServiceTest, ASavedImageCanBeLoaded) {
  ASSERT_TRUE(load(docker_archive("demo:1", {kBase, kTop}).bytes()));
  Collector out;
  const auto saved = await(io_, service_->save("demo:1", out));
  ASSERT_TRUE(saved) << saved.error().message;
  const auto again = load(out.text, "copy:1");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_GT(again->front().bytes, 200'000u);
  EXPECT_TRUE(fs::exists(ensure("copy:1")->layers.at(1).root() / "bin/sh"));
  Collector gone;
  gone.limit = 0;
  EXPECT_EQ(await(io_, service_->save("demo:1", gone)).error().code, Code::Unavailable);
  Collector untouched;
  EXPECT_EQ(await(io_, service_->save("none", untouched)).error().code, Code::NotFound);
  EXPECT_TRUE(untouched.text.empty());
}

TEST_F(ImageServiceTest, ReadersThatDoNotReadHoldUpNeitherLoadsNorForLongEachOther) {
  restart_with({.loads = 1, .sends = 2, .wait = std::chrono::milliseconds(1)});
  Stuck first(io_.get_executor()), second(io_.get_executor());
  auto one = net::co_spawn(io_, send(first), net::use_future);
  auto two = net::co_spawn(io_, send(second), net::use_future);
  run_until([&] { return first.waiting && second.waiting; });
  const auto loaded = load(docker_archive("other:1", {kTop}).bytes());
  EXPECT_TRUE(loaded) << loaded.error().message;
  Collector out;
  const auto refused = await(io_, send(out));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("try again"));
  EXPECT_FALSE(await(io_, service_->send_permit()));
  second.go.set();
  EXPECT_TRUE(finish(two));
  {
    const auto permit = await(io_, service_->send_permit());
    EXPECT_TRUE(permit) << permit.error().message;
    EXPECT_FALSE(await(io_, service_->send_permit()));
  }
  EXPECT_TRUE(await(io_, send(out))) << "a permit that was not used is given back";
  first.go.set();
  EXPECT_TRUE(finish(one));
}

TEST_F(ImageServiceTest, OneMoreArchiveGetsThePermitThatComesFree) {
  restart_with({.sends = 1, .wait = std::chrono::hours(1)});
  Stuck slow(io_.get_executor());
  auto one = net::co_spawn(io_, send(slow), net::use_future);
  run_until([&] { return slow.waiting; });
  Collector out;
  auto two = net::co_spawn(io_, send(out), net::use_future);
  slow.go.set();
  EXPECT_TRUE(finish(one));
  EXPECT_TRUE(finish(two));
  EXPECT_EQ(out.text.size(), std::size_t{4} << 20);
}

TEST_F(ImageServiceTest, APeerThatIsTooSlowLosesItsPermit) {
  restart_with({.loads = 1, .sends = 1, .patience = std::chrono::milliseconds(1)});
  for (int i = 0; i < 2; ++i) {
    Stuck slow(io_.get_executor());
    const auto saved = await(io_, send(slow));
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, Code::Timeout);
    EXPECT_THAT(saved.error().message, HasSubstr("too slow"));
    Silent silent(io_.get_executor());
    const auto loaded = await(io_, service_->load(silent, std::nullopt));
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::InvalidRequest);
    EXPECT_THAT(loaded.error().message, HasSubstr("too slow"));
  }
  expect_clean();
}

TEST_F(ImageServiceTest, AnExceptionIsNeverASuccess) {
  ASSERT_TRUE(load(docker_archive("demo:1", {kBase}).bytes()));
  stop();
  config_.after_step = [](std::string_view) { throw std::runtime_error("a bug"); };
  start();
  const auto loaded = load(docker_archive("other:1", {kTop}).bytes());
  EXPECT_FALSE(loaded);
  EXPECT_EQ(service_->list().size(), 1u);
  Collector out;
  const auto sent = await(
      io_,
      service_->send_archive("x", [](image::ByteSink) -> Result<void> { throw std::runtime_error("a bug"); }, out));
  EXPECT_FALSE(sent);
  EXPECT_TRUE(await(io_, service_->save("demo:1", out))) << "its permit has come back";
}

TEST_F(ImageServiceTest, OnlyAllowedDirectoriesBecomeImages) {
  fs::create_directories(dir_ / "allowed/root/etc");
  fs::create_directories(dir_ / "allowed-not");
  fs::create_directory_symlink(dir_ / "allowed-not", dir_ / "allowed/escape");
  const auto add = [&](const fs::path& path) { return await(io_, service_->add_directory(path, "local:1")); };
  EXPECT_EQ(add(dir_ / "allowed-not").error().code, Code::Forbidden);
  EXPECT_EQ(add(dir_ / "allowed/escape").error().code, Code::Forbidden);
  EXPECT_EQ(add(dir_ / "allowed/../allowed-not").error().code, Code::Forbidden);
  EXPECT_EQ(add(dir_ / "allowed/none").error().code, Code::NotFound);
  EXPECT_EQ(add(dir_ / "none").error().code, Code::Forbidden) << "the answer does not tell what exists elsewhere";
  EXPECT_TRUE(service_->list().empty());
  const auto made = add(dir_ / "allowed/root");
  ASSERT_TRUE(made) << made.error().message;
  const auto image = ensure("local:1", PullPolicy::Never);
  ASSERT_TRUE(image);
  EXPECT_TRUE(fs::exists(image->layers.at(0).root() / "etc"));
}

TEST_F(ImageServiceTest, AnImageInUseStaysUnlessForcedAndItsLayersEvenThen) {
  config_.keep_bytes = 0;
  stop();
  start();
  ASSERT_TRUE(load(docker_archive("demo:1", {kBase}).bytes()));
  ASSERT_TRUE(load(docker_archive("other:1", {kTop}).bytes()));
  auto used = ensure("demo:1");
  ASSERT_TRUE(used);
  EXPECT_TRUE(service_->inspect("demo:1")->in_use);
  EXPECT_FALSE(service_->inspect("other:1")->in_use);
  EXPECT_EQ(await(io_, service_->remove("demo:1", false)).error().code, Code::Conflict);
  EXPECT_TRUE(await(io_, service_->remove("demo:1", true)));
  EXPECT_TRUE(await(io_, service_->remove("other:1", false)));
  ASSERT_TRUE(await(io_, service_->collect(0)));
  EXPECT_TRUE(fs::exists(used->layers[0].root() / "bin/sh"));
  EXPECT_FALSE(service_->store().find(Digest::of(kTop)));
  used->layers.clear();
  ASSERT_TRUE(await(io_, service_->collect(0)));
  EXPECT_EQ(service_->store().usage().layers, 0u);
}

TEST_F(ImageServiceTest, SandboxesThatOutliveTheDaemonGetTheirLayersBack) {
  ASSERT_TRUE(load(docker_archive("demo:1", {kBase, kTop}).bytes()));
  stop();
  start();
  const auto leases = service_->lease({Digest::of(kTop), Digest::of(kBase)});
  ASSERT_TRUE(leases);
  EXPECT_EQ(leases->at(0).diff_id(), Digest::of(kTop));
  ASSERT_TRUE(await(io_, service_->remove("demo:1", true)));
  ASSERT_TRUE(await(io_, service_->collect(0)));
  EXPECT_TRUE(fs::exists(leases->at(1).root() / "bin/sh"));
  const auto missing = service_->lease({Digest::of("none")});
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(Digest::of("none").hex()));
}

TEST_F(ImageServiceTest, BeyondTheLimitUnusedRegistryImagesGoButNotLocalOnes) {
  ASSERT_TRUE(load(docker_archive("local:1", {kTop}).bytes()));
  ASSERT_TRUE(ensure(box()));
  const auto collected = await(io_, service_->collect(50'000));
  ASSERT_TRUE(collected) << collected.error().message;
  EXPECT_EQ(collected->layers, 1u) << "the top layer is shared with the local image";
  ASSERT_EQ(service_->list().size(), 1u);
  EXPECT_EQ(service_->list()[0].familiar, "local:1");
}

TEST_F(ImageServiceTest, AFullDiskIsSaidAndEverythingUndone) {
  stop();
  config_.directory = dir_ / "small";
  fs::create_directory(config_.directory);
  ASSERT_EQ(::mount("none", config_.directory.c_str(), "tmpfs", 0, "size=160k"), 0);
  start();
  const auto loaded = load(docker_archive("demo:1", {kBase}).bytes());
  const auto pulled = ensure(box());
  const bool empty = service_->list().empty() && fs::is_empty(config_.directory / "tmp");
  stop();
  EXPECT_EQ(::umount(config_.directory.c_str()), 0);
  for (const Error& error : {loaded.error(), pulled.error()}) {
    EXPECT_EQ(error.code, Code::Unavailable) << error.message;
    EXPECT_THAT(error.message, HasSubstr("no space left in " + config_.directory.string()));
  }
  EXPECT_TRUE(empty);
}

}  // namespace
}  // namespace osb::sandboxd
