#include "sandboxd/egress/egress_process.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/descriptor.h"
#include "async/signals.h"
#include "async/timer.h"
#include "sandboxd/egress/egress_peer.h"
#include "sandboxd/network/network_fixture.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace osb::sandboxd {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace osb::sandboxd::testing;
using osb::testing::await;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kUser = 1048575;

// A host with a sandbox "a", and kEgressPeer in the place of the egress process.
class EgressHost {
 public:
  explicit EgressHost(World& world) : world_(world), slot_(world.take()), policies_(*world.firewall, world.config) {
    ignore_sigpipe();
    fs::permissions(dir_.path(), fs::perms(0755));
    fs::create_directory(dir_ / "rules");
    std::ofstream(dir_ / "peer") << kEgressPeer;
    fs::permissions(dir_ / "peer", fs::perms(0755));
    process_.emplace(io_.get_executor(), pool_, policies_, authority_,
                     EgressProcess::Options{.program = (dir_ / "peer").string(),
                                            .user = kUser,
                                            .resolvers = {"10.0.0.2:53"},
                                            .rules_directory = (dir_ / "rules").string()});
    policies_.on_change([this](const std::string& id) { process_->changed(id); });
  }
  ~EgressHost() { await(io_, process_->close()); }

  void start() {
    must(process_->load_rules());
    process_->start(
        must(bind_egress_sockets(world_.config)),
        [this](std::string id, std::uint64_t revision, policy::Policy policy) -> net::awaitable<Result<std::uint64_t>> {
          const auto changed =
              policies_.change(id, revision, std::move(policy), [](const PolicyRecord&) { return Result<void>(); });
          if (!changed) co_return Failure(changed.error());
          co_return changed->revision;
        },
        [this](std::string id, std::optional<json::object> vault) -> net::awaitable<Result<std::uint64_t>> {
          const auto changed =
              policies_.set_vault(id, std::move(vault), [](const PolicyRecord&) { return Result<void>(); });
          if (!changed) co_return Failure(changed.error());
          co_return changed->revision;
        },
        [](const std::string& id) { return "token-of-" + id; });
  }
  void add_sandbox(std::string_view policy, bool intercept = false) {
    must(policies_.add("a", slot_.index, {.policy = must(policy::parse_policy(policy)), .intercept = intercept},
                       NetworkPolicies::Sandbox::New));
  }

  // One command of the peer's console, on a connection of its own; waits until the process is there.
  json::value ask(const std::string& command) {
    return await(io_, [](EgressHost& self, std::string line) -> net::awaitable<json::value> {
      for (;;) {
        auto socket = self.process_->connect("a");
        if (!socket) {
          (void)co_await sleep_for(std::chrono::milliseconds(5));
          continue;
        }
        auto console = Descriptor::open(self.io_.get_executor(), std::move(*socket));
        (void)co_await console->write_all(line + "\n");
        std::string answer;
        char buffer[4096];
        while (answer.find('\n') == std::string::npos) {
          const auto got = co_await console->read_some(buffer);
          if (!got || *got == 0) co_return nullptr;  // it has ended
          answer.append(buffer, *got);
        }
        co_return json::parse(answer.substr(0, answer.find('\n')));
      }
    }(*this, command));
  }
  json::value send(std::string_view message) { return ask("send " + std::string(message)); }
  // The last message of a type; null if there was none.
  json::value last(std::string_view type) {
    json::value found, all;
    while (all.is_null()) all = ask("received");  // a process that is about to end does not answer
    for (const json::value& each : all.as_array()) {
      if (each.at("type").as_string() == type) found = each;
    }
    return found;
  }
  json::value wait_for(std::string_view type, const std::function<bool(const json::value&)>& wanted) {
    for (;;) {
      json::value found = last(type);
      if (!found.is_null() && wanted(found)) return found;
    }
  }
  void write_rules(const char* name, const std::string& text) {
    std::ofstream(dir_ / "rules" / (std::string(name) + ".next")) << text;
    fs::rename(dir_ / "rules" / (std::string(name) + ".next"), dir_ / "rules" / name);
  }

  net::io_context& io() { return io_; }
  World& world() { return world_; }
  const Slot& slot() const { return slot_; }
  NetworkPolicies& policies() { return policies_; }
  EgressProcess& process() { return *process_; }

 private:
  World& world_;
  osb::testing::TempDir dir_;
  net::io_context io_{1};
  BlockingPool pool_{2};
  Slot slot_;
  NetworkPolicies policies_;
  EgressAuthority authority_{(dir_ / "ca.pem").string(), {}};
  std::optional<EgressProcess> process_;
};

void in_host(const std::function<void(EgressHost&)>& body) {
  in_world([&](World& world) {
    EgressHost host(world);
    body(host);
  });
}

TEST(EgressProcess, HasNoPrivilegeAndItsFourDescriptorsOnly) {
  in_host([](EgressHost& host) {
    host.start();
    const json::value ids = host.ask("ids");
    EXPECT_EQ(ids.at(0).as_int64(), kUser);
    EXPECT_EQ(ids.at(1).as_int64(), kUser);
    EXPECT_EQ(ids.at(2).as_string(), "0000000000000000");
    // Besides them: the console, and the listing itself.
    EXPECT_LE(ids.at(3).as_array().size(), 9U);
  });
}

TEST(EgressProcess, IsToldEverythingAtItsStart) {
  in_host([](EgressHost& host) {
    host.write_rules("deny.always", "evil.com\n");
    host.add_sandbox(R"({"egress":[{"action":"allow","target":"a.com"}]})");
    host.start();
    const json::array all = host.ask("received").as_array();
    ASSERT_GE(all.size(), 4U);
    EXPECT_EQ(all[0].at("type").as_string(), "hello");
    EXPECT_EQ(all[0].at("resolvers").at(0).as_string(), "10.0.0.2:53");
    EXPECT_EQ(all[1].at("type").as_string(), "overlays");
    EXPECT_EQ(all[1].at("deny").as_string(), "evil.com\n");
    EXPECT_EQ(all[2].at("type").as_string(), "sandbox");
    EXPECT_EQ(all[2].at("address").as_string(), host.slot().address);
    EXPECT_EQ(all[2].at("token").as_string(), "token-of-a");
    EXPECT_EQ(all[2].at("revision").as_int64(), 1);
  });
}

TEST(EgressProcess, OpensAddressesAndChangesPoliciesOnRequest) {
  in_host([](EgressHost& host) {
    host.add_sandbox(R"({"egress":[{"action":"allow","target":"a.com"}]})");
    host.start();
    const json::value opened = host.send(
        R"({"type":"open","seq":7,"id":"a","revision":1,"addresses":[{"address":"11.0.0.1","seconds":60,"name":"a.com"}]})");
    EXPECT_EQ(opened.at("seq").as_int64(), 7);
    EXPECT_FALSE(opened.as_object().contains("error"));
    EXPECT_THAT(host.world().firewall->opened(host.slot().index), ElementsAre(0x0b000001U));
    const json::value refused = host.send(
        R"({"type":"open","seq":8,"id":"a","revision":1,"addresses":[{"address":"169.254.169.254","seconds":60,"name":"a.com"}]})");
    EXPECT_EQ(refused.at("error").at("code").as_string(), "refused");

    const json::value changed =
        host.send(R"({"type":"set_policy","seq":9,"id":"a","revision":1,"policy":{"defaultAction":"deny"}})");
    EXPECT_EQ(changed.at("revision").as_int64(), 2);
    EXPECT_EQ(host.last("sandbox").at("revision").as_int64(), 2);
    EXPECT_THAT(host.world().firewall->opened(host.slot().index), ::testing::IsEmpty());
    const json::value stale =
        host.send(R"({"type":"set_policy","seq":10,"id":"a","revision":1,"policy":{"defaultAction":"allow"}})");
    EXPECT_EQ(stale.at("error").at("code").as_string(), "stale");
    const json::value wrong =
        host.send(R"({"type":"set_policy","seq":11,"id":"a","revision":2,"policy":{"defaultAction":"block"}})");
    EXPECT_EQ(wrong.at("error").at("code").as_string(), "refused");
    EXPECT_EQ(host.policies().find("a")->record.revision, 2U);
  });
}

TEST(EgressProcess, KeysComeBeforeTheFirstInterceptedSandboxAndVaultsAreKeptForTheNextProcess) {
  in_host([](EgressHost& host) {
    host.start();
    EXPECT_TRUE(host.last("interception").is_null()) << "nobody needs them";
    host.add_sandbox(R"({"egress":[{"action":"allow","target":"a.com"}]})", true);
    const json::value sandbox =
        host.wait_for("sandbox", [](const json::value& each) { return each.at("intercept").as_bool(); });
    EXPECT_FALSE(sandbox.as_object().contains("vault"));
    EXPECT_THAT(std::string(host.last("interception").at("authority").as_string()),
                ::testing::HasSubstr("PRIVATE KEY"));
    const json::value stored = host.send(R"({"type":"set_vault","seq":3,"id":"a","vault":{"revision":2}})");
    EXPECT_EQ(stored.at("seq").as_int64(), 3);
    EXPECT_FALSE(stored.as_object().contains("error"));
    const json::value stranger = host.send(R"({"type":"set_vault","seq":4,"id":"b","vault":{"revision":2}})");
    EXPECT_EQ(stranger.at("error").at("code").as_string(), "stale");
    (void)host.ask("raw end");
    EXPECT_EQ(host.last("sandbox").at("vault").at("revision").as_int64(), 2);
    EXPECT_FALSE(host.last("interception").is_null());
  });
}

TEST(EgressProcess, IsStartedAgainWhenItDiesOrTalksNonsense) {
  in_host([](EgressHost& host) {
    host.add_sandbox("{}");
    host.start();
    for (const char* nonsense : {"not json", R"({"type":"open"})", R"({"type":"connection","id":"a"})"}) {
      (void)host.ask("raw " + std::string(nonsense));
      EXPECT_EQ(host.last("sandbox").at("id").as_string(), "a") << nonsense;
    }
    const json::value again = host.send(R"({"type":"open","seq":1,"id":"a","revision":1,"addresses":[]})");
    EXPECT_EQ(again.at("seq").as_int64(), 1);
  });
}

TEST(EgressProcess, HearsOfSandboxesThatComeAndGo) {
  in_host([](EgressHost& host) {
    host.start();
    EXPECT_TRUE(host.last("sandbox").is_null());
    host.add_sandbox("{}");
    host.wait_for("sandbox", [](const json::value& each) { return each.at("id").as_string() == "a"; });
    host.policies().remove("a");
    host.wait_for("gone", [](const json::value& each) { return each.at("id").as_string() == "a"; });
  });
}

TEST(EgressProcess, RulesOfTheOperatorHoldWhenTheirFileChangesAndMistakesLeaveTheOldOnes) {
  in_host([](EgressHost& host) {
    host.add_sandbox(R"({"egress":[{"action":"allow","target":"a.com"}]})");
    host.start();
    const std::string open =
        R"({"type":"open","seq":1,"id":"a","revision":1,"addresses":[{"address":"11.0.0.1","seconds":60,"name":"a.com"}]})";
    EXPECT_FALSE(host.send(open).as_object().contains("error"));
    host.write_rules("deny.always", "a.com\n");
    host.wait_for("overlays", [](const json::value& each) { return each.at("deny").as_string() == "a.com\n"; });
    EXPECT_THAT(host.world().firewall->opened(host.slot().index), ::testing::IsEmpty());
    EXPECT_EQ(host.send(open).at("error").at("code").as_string(), "refused");
    host.write_rules("deny.always", "a.*.com\n");
    // The other file's change comes after the mistake, and is not taken either as long as that stands.
    host.write_rules("allow.always", "b.com\n");
    EXPECT_EQ(host.send(open).at("error").at("code").as_string(), "refused");
    host.write_rules("deny.always", "\n");
    host.wait_for("overlays", [](const json::value& each) { return each.at("allow").as_string() == "b.com\n"; });
    EXPECT_FALSE(host.send(open).as_object().contains("error"));
  });
}

TEST(EgressProcess, RulesOfTheOperatorThatAreWrongAtTheStartAreAnError) {
  in_host([](EgressHost& host) {
    host.write_rules("allow.always", "ok.com\n10.0.0.0/33\n");
    const auto loaded = host.process().load_rules();
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, HasSubstr("allow.always: line 2"));
    host.write_rules("allow.always", "");
    host.start();  // so that there is something to close
  });
}

TEST(EgressProcess, AProgramThatOthersCannotExecuteIsNamed) {
  const osb::testing::TempDir dir;
  const fs::path program = dir / "program";
  EXPECT_THAT(check_egress_program(program).error().message, HasSubstr("there is no program"));
  std::ofstream(program) << "\x7f" "ELF";
  fs::permissions(program, fs::perms(0700));
  EXPECT_THAT(check_egress_program(program).error().message, HasSubstr("chmod o+x " + program.string()));
  fs::permissions(program, fs::perms(0755));
  fs::permissions(dir.path(), fs::perms(0700));
  EXPECT_TRUE(check_egress_program(program)) << "a home directory that is closed to others";
}

TEST(EgressProcess, NameServersOfTheHostAreReadFromItsFile) {
  EXPECT_THAT(host_resolvers("# x\nsearch a\nnameserver 127.0.0.53\nnameserver  fd00::1 \nnameserver bad\nnameservers "
                             "1.1.1.1\n"),
              ElementsAre("127.0.0.53:53", "[fd00::1]:53"));
}

}  // namespace
}  // namespace osb::sandboxd
