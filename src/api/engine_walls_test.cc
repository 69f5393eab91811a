#include "api/engine_walls.h"

#include <boost/json/parse.hpp>
#include <gmock/gmock.h>

namespace osb::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> missing(std::string_view info) { return missing_engine_walls(boost::json::parse(info)); }

TEST(EngineWalls, AnEngineWithAllWallsLacksNone) {
  EXPECT_THAT(missing(R"({"SecurityOptions":["name=apparmor","name=seccomp,profile=default","name=userns"],
                          "BridgeNfIptables":true,"PidsLimit":true,"MemoryLimit":true})"),
              IsEmpty());
  EXPECT_THAT(missing(R"({"SecurityOptions":["name=selinux","name=seccomp,profile=builtin","name=rootless"]})"),
              IsEmpty());
  EXPECT_THAT(missing("{}"), IsEmpty());
  EXPECT_THAT(missing("null"), IsEmpty());
}

TEST(EngineWalls, EveryMissingWallIsNamed) {
  EXPECT_THAT(missing(R"({"SecurityOptions":[],"BridgeNfIptables":false,"PidsLimit":false,"MemoryLimit":false})"),
              ElementsAre(StartsWith("seccomp"), StartsWith("AppArmor or SELinux"), StartsWith("user namespaces"),
                          StartsWith("bridge-nf-call-iptables"), StartsWith("a limit on processes"),
                          StartsWith("a limit on memory")));
  EXPECT_THAT(missing(R"({"SecurityOptions":["name=apparmor","name=userns","name=seccomp,profile=unconfined"]})"),
              ElementsAre(StartsWith("seccomp")));
  EXPECT_THAT(missing(R"({"BridgeNfIptables":false,"BuildahVersion":"1.28.2"})"), IsEmpty());
}

}  // namespace
}  // namespace osb::api
