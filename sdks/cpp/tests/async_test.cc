#include <opensandbox/async.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "fixture.h"

namespace opensandbox {
namespace {

namespace net = boost::asio;

class SdkAsync : public testing::Test {
 protected:
  template <typename T>
  Result<T> run(async::Task<T> task) {
    std::optional<Result<T>> out;
    net::co_spawn(io_, store(std::move(task), out), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    while (!out) io_.run_one();
    return std::move(*out);
  }
  template <typename T>
  static net::awaitable<void> store(async::Task<T> task, std::optional<Result<T>>& out) {
    out.emplace(co_await std::move(task));
  }

  net::io_context io_{1};
  const net::executor_work_guard<net::io_context::executor_type> work_{io_.get_executor()};
  const async::Client client_ = must(async::Client::open(io_.get_executor(), test_config()));
};

TEST_F(SdkAsync, RunsManyCommandsAtOnceOnOneThread) {
  const auto sandbox = must(run(async::Sandbox::create(client_, {.image = test_image()})));
  constexpr int kCount = 20;
  std::vector<std::optional<Result<Execution>>> runs(kCount);
  int left = kCount;
  for (int i = 0; i < kCount; ++i) {
    net::co_spawn(io_, store(sandbox.commands().run("echo " + std::to_string(i)), runs[static_cast<std::size_t>(i)]),
                  [&](std::exception_ptr) { --left; });
  }
  while (left > 0) io_.run_one();
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(must(*runs[static_cast<std::size_t>(i)]).stdout_text(), std::to_string(i) + '\n');
  }
  must(run(sandbox.kill()));
}

TEST_F(SdkAsync, HandsEventsToACoroutineThatMayWait) {
  const auto sandbox = must(run(async::Sandbox::create(client_, {.image = test_image()})));
  std::size_t lines = 0;
  async::EventSink sink = [&](std::span<const ExecutionEvent> events) -> async::Task<void> {
    for (const auto& event : events) lines += event.type == ExecutionEvent::Type::Stdout;
    auto other = co_await sandbox.commands().status("unknown");  // the loop is free meanwhile
    EXPECT_FALSE(other);
    co_return Result<void>();
  };
  const auto done = must(run(sandbox.commands().run("seq 1 5000", {.discard_output = true}, sink)));
  EXPECT_EQ(lines, 5000u);
  EXPECT_EQ(done.exit_code, 0);
  must(run(sandbox.kill()));
}

TEST_F(SdkAsync, MovesBytesThroughCoroutines) {
  const auto sandbox = must(run(async::Sandbox::create(client_, {.image = test_image()})));
  const std::string block(100'000, 'b');
  int left = 30;
  async::ByteSource source = [&]() -> async::Task<std::string_view> {
    co_return left-- > 0 ? std::string_view(block) : std::string_view();
  };
  EXPECT_EQ(must(run(sandbox.files().write_from("/tmp/x", source))), 3'000'000u);
  std::uint64_t got = 0;
  async::ByteSink sink = [&](std::string_view piece) -> async::Task<void> {
    got += piece.size();
    co_return Result<void>();
  };
  EXPECT_EQ(must(run(sandbox.files().read_to("/tmp/x", sink))), 3'000'000u);
  EXPECT_EQ(got, 3'000'000u);
  const auto id = must(run(sandbox.ptys().create({.command = "echo from the terminal"})));
  const auto pty = must(run(sandbox.ptys().attach(id)));
  std::string out;
  for (;;) {
    const auto frame = must(run(pty.read()));
    out += frame.data;
    if (frame.type == PtyFrame::Type::Exit) break;
  }
  EXPECT_NE(out.find("from the terminal"), std::string::npos);
  must(run(sandbox.kill()));
}

TEST_F(SdkAsync, RemovesTheSandboxOfACancelledCreate) {
  net::cancellation_signal cancel;
  std::string id;
  // Ready never: by the time it is asked the sandbox exists.
  async::HealthCheck check = [&](async::Sandbox sandbox) -> async::Task<bool> {
    id = sandbox.id();
    net::post(io_, [&] { cancel.emit(net::cancellation_type::terminal); });
    net::steady_timer timer(io_, std::chrono::hours(1));
    co_await timer.async_wait(net::use_awaitable);
    co_return true;
  };
  bool ended = false;
  std::optional<Result<async::Sandbox>> out;
  net::co_spawn(io_, store(async::Sandbox::create(client_, {.image = test_image()}, check), out),
                net::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr) { ended = true; }));
  while (!ended) io_.run_one();
  EXPECT_FALSE(out && out->has_value());
  ASSERT_FALSE(id.empty());
  const auto after = run(async::SandboxManager(client_).get(id));
  EXPECT_FALSE(after && after->status.state == "Running") << "the removal is part of the cancelled create";
  const auto gone = run(async::SandboxManager(client_).wait_for_state(id, {"Terminated"}, std::chrono::seconds(60)));
  EXPECT_TRUE(gone || gone.error().not_found()) << gone.error().to_string();
}

TEST_F(SdkAsync, RemovesTheSandboxOfACreateThatWasCancelledBetweenTwoQuestions) {
  net::cancellation_signal cancel;
  std::string id;
  async::HealthCheck check = [&](async::Sandbox sandbox) -> async::Task<bool> {
    id = sandbox.id();
    co_return false;
  };
  CreateOptions options{.image = test_image()};
  options.ready = {.timeout = std::chrono::hours(2), .poll_interval = std::chrono::hours(1)};
  bool ended = false;
  std::optional<Result<async::Sandbox>> out;
  net::co_spawn(io_, store(async::Sandbox::create(client_, options, check), out),
                net::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr) { ended = true; }));
  while (id.empty()) io_.run_one();
  while (io_.run_one_for(std::chrono::seconds(1)) > 0) {
  }  // nothing is left to do but to wait for the next question
  ASSERT_FALSE(ended);
  cancel.emit(net::cancellation_type::terminal);
  while (!ended) io_.run_one();
  EXPECT_FALSE(out && out->has_value());
  const auto gone = run(async::SandboxManager(client_).wait_for_state(id, {"Terminated"}, std::chrono::seconds(60)));
  EXPECT_TRUE(gone || gone.error().not_found()) << gone.error().to_string();
}

TEST_F(SdkAsync, StopsListeningWhenCancelled) {
  const auto sandbox = must(run(async::Sandbox::create(client_, {.image = test_image()})));
  net::cancellation_signal cancel;
  std::string id;
  async::EventSink sink = [&](std::span<const ExecutionEvent> events) -> async::Task<void> {
    id = events[0].text;
    net::post(io_, [&] { cancel.emit(net::cancellation_type::terminal); });
    co_return Result<void>();
  };
  bool ended = false;
  std::optional<Result<Execution>> out;
  net::co_spawn(io_, store(sandbox.commands().run("sleep 600", {}, sink), out),
                net::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr) { ended = true; }));
  while (!ended) io_.run_one();
  EXPECT_FALSE(out && out->has_value());
  EXPECT_TRUE(must(run(sandbox.commands().status(id))).running);
  must(run(sandbox.kill()));
}

}  // namespace
}  // namespace opensandbox
