#include "http/connection_places.h"

#include <deque>

#include <gtest/gtest.h>

namespace osb::http {
namespace {

using Wait = ConnectionPlaces::Wait;

class ConnectionPlacesTest : public ::testing::Test {
 protected:
  struct Connection {
    std::string name;
    ConnectionPlaces::Place place;
    bool busy = false;  // its client has just sent something
  };

  // Enters and begins; null: there was no place.
  Connection* open(std::string name) {
    Connection& made = connections.emplace_back(std::move(name));
    if (!places.enter(made.place)) return nullptr;
    places.begin(made.place, [this, &made] {
      if (made.busy) return false;
      ended.push_back(made.name);
      return true;
    });
    return &made;
  }
  Connection* open_waiting(std::string name, Wait what, std::string_view peer = "10.0.0.1") {
    Connection* made = open(std::move(name));
    if (made != nullptr) places.wait(made->place, what, peer);
    return made;
  }
  ConnectionPlaces::Place& known(std::string name) {
    Connection* made = open(std::move(name));
    places.recognize(made->place);
    return made->place;
  }

  ConnectionPlaces places{{.connections = 8, .half_sent_per_client = 0, .reserve = 2}};  // 7 for strangers
  std::deque<Connection> connections;
  std::vector<std::string> ended;
};

TEST_F(ConnectionPlacesTest, TheOldestHalfSentHeadGoesFirst) {
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7"}) open_waiting(name, Wait::HalfSent);
  // More bytes do not make it younger.
  places.wait(connections[0].place, Wait::HalfSent, "10.0.0.1");
  EXPECT_NE(open("8"), nullptr);
  EXPECT_NE(open("9"), nullptr);
  EXPECT_EQ(ended, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(places.strangers(), 7U);
  EXPECT_EQ(places.ended(), 2U);
}

TEST_F(ConnectionPlacesTest, HalfSentHeadsGoBeforeSilentConnectionsAndThoseBeforeIdleOnes) {
  open_waiting("idle", Wait::Idle);
  open_waiting("silent", Wait::Silent);
  open_waiting("half", Wait::HalfSent);
  for (const char* name : {"4", "5", "6", "7"}) open(name);  // they are being served
  for (const char* name : {"8", "9", "10"}) EXPECT_NE(open(name), nullptr);
  EXPECT_EQ(ended, (std::vector<std::string>{"half", "silent", "idle"}));
}

TEST_F(ConnectionPlacesTest, TheAddressWithMostGoesFirst) {
  open_waiting("other", Wait::HalfSent, "10.0.0.2");
  for (const char* name : {"1", "2", "3"}) open_waiting(name, Wait::HalfSent, "10.0.0.1");
  for (const char* name : {"4", "5", "6"}) open(name);
  open("7");
  open("8");
  EXPECT_EQ(ended, (std::vector<std::string>{"1", "2"}));
}

TEST_F(ConnectionPlacesTest, AnAddressHasSoManyHalfSentHeads) {
  places.set_limits({.connections = 100, .half_sent_per_client = 2, .reserve = 0});
  for (const char* name : {"1", "2", "3"}) open_waiting(name, Wait::HalfSent);
  open_waiting("other", Wait::HalfSent, "10.0.0.2");
  for (const char* name : {"a", "b", "c", "d"})
    open_waiting(name, Wait::Silent);  // these may become a request any time
  EXPECT_EQ(ended, (std::vector<std::string>{"1"}));
}

TEST_F(ConnectionPlacesTest, PlacesAreKeptForKnownClients) {
  for (int i = 0; i < 7; ++i) open("served");
  Connection* late = open("late");
  ASSERT_NE(late, nullptr);
  EXPECT_TRUE(late->place.in_reserve());
  places.recognize(late->place);
  EXPECT_TRUE(late->place.known());
  Connection* later = open("later");
  places.recognize(later->place);
  EXPECT_TRUE(later->place.in_reserve()) << "all eight are taken";
  EXPECT_TRUE(ended.empty());
}

TEST_F(ConnectionPlacesTest, AKnownClientTakesTheLastPlaceFromAWaitingStranger) {
  open_waiting("half", Wait::HalfSent);
  for (int i = 0; i < 7; ++i) known("known");
  EXPECT_EQ(ended, (std::vector<std::string>{}));
  Connection* late = open("late");
  ASSERT_NE(late, nullptr);
  places.recognize(late->place);
  EXPECT_TRUE(late->place.known());
  EXPECT_EQ(ended, (std::vector<std::string>{"half"}));
}

TEST_F(ConnectionPlacesTest, KnownClientsAndServedStrangersStay) {
  for (int i = 0; i < 7; ++i) places.wait(known("known"), Wait::Idle, "10.0.0.1");
  open("served");
  for (const char* name : {"r1", "r2"}) EXPECT_TRUE(open(name)->place.in_reserve());
  EXPECT_EQ(open("too much"), nullptr);
  EXPECT_TRUE(ended.empty());
}

TEST_F(ConnectionPlacesTest, TheReserveIsNotHeldByHalfSentHeads) {
  for (int i = 0; i < 8; ++i) known("known");
  for (const char* name : {"r1", "r2", "r3", "r4"}) {
    Connection* made = open(name);
    ASSERT_NE(made, nullptr);
    EXPECT_TRUE(made->place.in_reserve());
    places.wait(made->place, Wait::HalfSent, "10.0.0.1");
  }
  EXPECT_EQ(ended, (std::vector<std::string>{"r1", "r2"}));
}

TEST_F(ConnectionPlacesTest, AClientThatHasJustSentSomethingStays) {
  for (const char* name : {"1", "2", "3", "4", "5", "6", "7"}) open_waiting(name, Wait::HalfSent);
  connections[0].busy = true;
  open("8");
  EXPECT_EQ(ended, (std::vector<std::string>{"2"}));
}

TEST_F(ConnectionPlacesTest, ThoseThatLeaveMakeRoom) {
  for (int i = 0; i < 7; ++i) open("served");
  for (Connection& each : connections) places.leave(each.place);
  for (Connection& each : connections) places.leave(each.place);  // again, after the session
  EXPECT_EQ(places.strangers(), 0U);
  EXPECT_EQ(places.starting(), 0U);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(open("next")->place.in_reserve());
}

TEST_F(ConnectionPlacesTest, WithoutARunSessionItIsTooEarlyToRefuse) {
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(places.enter(connections.emplace_back("new").place));
  EXPECT_EQ(open("next"), nullptr);
  EXPECT_EQ(places.starting(), 7U);
  for (Connection& each : connections) places.leave(each.place);
  EXPECT_EQ(places.starting(), 0U);
}

TEST_F(ConnectionPlacesTest, HalfOfThePlacesIsPressure) {
  for (int i = 0; i < 3; ++i) open("served");
  EXPECT_FALSE(places.pressed());
  open("served");
  EXPECT_TRUE(places.pressed());
}

TEST(ClientOf, AnIPv6ClientHasItsWholeNetwork) {
  EXPECT_EQ(client_of("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(client_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(client_of("2001:db8:1:2::1"), client_of("2001:db8:1:2:ffff::9"));
  EXPECT_NE(client_of("2001:db8:1:2::1"), client_of("2001:db8:1:3::1"));
  EXPECT_EQ(client_of("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(client_of("unix"), "unix");
}

}  // namespace
}  // namespace osb::http
