#include "server/http/log_stream.h"

#include <deque>

#include <gmock/gmock.h>

#include "server/service/fake_backend.h"
#include "server/store/store_fixture.h"

namespace osb::server {
namespace {

using osb::testing::await;
using std::chrono::seconds;
using testing::FakeBackend;
using ::testing::HasSubstr;

// The output of an entrypoint, written by the test.
struct Script {
  explicit Script(net::any_io_executor executor) : changed(std::move(executor)) {}
  void add(Result<std::vector<LogPiece>> batch) {
    batches.push_back(std::move(batch));
    changed.notify_all();
  }
  std::deque<Result<std::vector<LogPiece>>> batches;
  int reads = 0;
  Notifier changed;
};

class ScriptedStream final : public runtime::LogStream {
 public:
  explicit ScriptedStream(Script& script) : script_(script) {}
  net::awaitable<Result<std::vector<LogPiece>>> next() override {
    ++script_.reads;
    if (!co_await script_.changed.wait_until([this] { return !script_.batches.empty(); })) {
      co_return fail(Code::Cancelled, "cancelled");
    }
    auto out = std::move(script_.batches.front());
    script_.batches.pop_front();
    co_return out;
  }

 private:
  Script& script_;
};

// A client that takes what it is given, unless it is told to wait.
class Reader final : public http::BodyWriter {
 public:
  explicit Reader(net::any_io_executor executor) : changed(std::move(executor)) {}
  net::awaitable<Result<void>> write(std::span<const std::string_view> pieces) override {
    (void)co_await changed.wait_until([this] { return !slow; });
    for (const std::string_view piece : pieces) text += piece;
    changed.notify_all();
    co_return Result<void>();
  }
  net::awaitable<Result<void>> flush() override { co_return Result<void>(); }
  net::awaitable<void> peer_closed() override {
    (void)co_await changed.wait_until([this] { return left; });
  }
  void set(bool& flag, bool value) {
    flag = value;
    changed.notify_all();
  }

  std::string text;
  bool slow = false, left = false;
  Notifier changed;
};

class LogStreamTest : public testing::StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    backend_.open_log = [this] { return std::make_unique<ScriptedStream>(script_); };
    service_ = std::make_unique<SandboxService>(io_.get_executor(), *store_, backend_, clock_, ServiceOptions{});
    service_->start();
    api::CreateSandbox wanted;
    wanted.image = api::ImageSpec{"host", {}};
    wanted.entrypoint = {"true"};
    wanted.resource_limits = api::StringMap{};
    const auto made = await(io_, service_->create(wanted, Principal{{}, Role::Administrator}, {.wait = seconds(60)}));
    ASSERT_TRUE(made) << made.error().message;
    record_ = made->record;
  }
  void TearDown() override {
    await(io_, service_->close());
    service_.reset();
    store_.reset();
  }

  void begin(bool follow = true) {
    response_ = log_stream(*service_, record_, {.since = {}, .tail = {}, .follow = follow});
    auto& body = std::get<http::StreamBody>(response_.body);
    net::co_spawn(io_, body.produce(reader_), [this](std::exception_ptr bug, Result<void> result) {
      EXPECT_FALSE(bug);
      EXPECT_TRUE(result);
      over_ = true;
      reader_.changed.notify_all();
    });
  }
  void until(std::function<bool()> condition) { await(io_, wait(std::move(condition))); }
  net::awaitable<void> wait(std::function<bool()> condition) {
    (void)co_await reader_.changed.wait_until(std::move(condition));
  }
  void until_over() {
    until([this] { return over_; });
  }
  void end_sandbox(int code) {
    runtime::Instance& instance = backend_.alive.at(record_->id);
    instance.state = runtime::InstanceState::Ended;
    instance.exit_code = code;
    backend_.say(record_->id);
  }

  net::io_context io_{1};
  FakeClock clock_;
  FakeBackend backend_{io_.get_executor()};
  Script script_{io_.get_executor()};
  Reader reader_{io_.get_executor()};
  std::unique_ptr<SandboxService> service_;
  SandboxPtr record_;
  http::Response response_;
  bool over_ = false;
};

TEST_F(LogStreamTest, OutputComesAsEventsAndTheEndTellsHow) {
  begin();
  script_.add(std::vector<LogPiece>{{"2025-01-02T03:04:05Z", "one\n"}, {"", "\xFF"}});
  until([this] { return reader_.text.ends_with("}\n\n"); });
  EXPECT_EQ(reader_.text,
            "{\"type\":\"output\",\"time\":\"2025-01-02T03:04:05Z\",\"text\":\"one\\n\"}\n\n"
            "{\"type\":\"output\",\"base64\":\"/w==\"}\n\n");
  reader_.text.clear();
  end_sandbox(3);
  script_.add(std::vector<LogPiece>{});
  until_over();
  EXPECT_THAT(reader_.text, HasSubstr(R"({"type":"end",)"));
  EXPECT_THAT(reader_.text, HasSubstr(R"("state":"Failed")"));
  EXPECT_THAT(reader_.text, HasSubstr(R"("exitCode":3})"));
}

TEST_F(LogStreamTest, ARemovedSandboxIsAnErrorEvent) {
  begin();
  script_.add(std::vector<LogPiece>{{"", "one\n"}});
  until([this] { return !reader_.text.empty(); });
  ASSERT_TRUE(await(io_, service_->remove(record_->id, Scope::all())));
  until_over();
  EXPECT_THAT(reader_.text, HasSubstr(R"({"type":"error",)"));
  EXPECT_THAT(reader_.text, HasSubstr("FAKE::SANDBOX_NOT_FOUND"));
}

TEST_F(LogStreamTest, AServerThatStopsSaysSo) {
  begin();
  script_.add(std::vector<LogPiece>{{"", "one\n"}});
  until([this] { return !reader_.text.empty(); });
  service_->begin_close();
  until_over();
  EXPECT_THAT(reader_.text, HasSubstr("GENERAL::SHUTTING_DOWN"));
}

TEST_F(LogStreamTest, ALostBackendIsAnErrorEventWithItsCode) {
  begin();
  Error lost(Code::Unavailable, "it broke off");
  lost.reason = "FAKE::UNAVAILABLE";
  script_.add(Failure(lost));
  until_over();
  EXPECT_THAT(reader_.text, HasSubstr(R"("code":"FAKE::UNAVAILABLE","message":"it broke off"})"));
}

TEST_F(LogStreamTest, OneThatHasNoLogEndsWithNothing) {
  backend_.open_log = nullptr;
  begin(false);
  until_over();
  EXPECT_TRUE(reader_.text.starts_with(R"({"type":"end",)")) << reader_.text;
  EXPECT_THAT(reader_.text, HasSubstr(R"("state":"Running"})"));
}

TEST_F(LogStreamTest, ForAReaderThatIsSlowNothingPilesUp) {
  reader_.slow = true;
  begin();
  for (int i = 0; i < 100; ++i) script_.add(std::vector<LogPiece>{{"", std::to_string(i) + "\n"}});
  script_.add(std::vector<LogPiece>{});
  end_sandbox(0);
  for (int turns = 0; turns < 1000; ++turns) io_.poll_one();
  EXPECT_LE(script_.reads, 2) << "one on its way to the reader, one ready";
  reader_.set(reader_.slow, false);
  until_over();
  EXPECT_THAT(reader_.text, HasSubstr("99\\n"));
  EXPECT_THAT(reader_.text, HasSubstr(R"("type":"end")"));
}

TEST_F(LogStreamTest, AReaderThatLeavesEndsTheReading) {
  begin();
  script_.add(std::vector<LogPiece>{{"", "one\n"}});
  until([this] { return !reader_.text.empty(); });
  reader_.set(reader_.left, true);
  until_over();
  EXPECT_EQ(reader_.text.find("end"), std::string::npos);
}

}  // namespace
}  // namespace osb::server
