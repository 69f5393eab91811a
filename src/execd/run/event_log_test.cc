#include "execd/run/event_log.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace osb::execd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An event is its number and padding here: the log does not look inside.
void add(EventLog& log, std::size_t size = 10) {
  std::string event = std::to_string(log.next_seq()) + ":";
  event.resize(std::max(size, event.size() + 2), '.');
  event.replace(event.size() - 2, 2, "\n\n");
  char* at = log.room(event.size());
  event.copy(at, event.size());
  log.commit(at + event.size());
}

void add_many(EventLog& log, std::size_t count, std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) {
    add(log, size);
    log.publish();
  }
}

// Numbers of the events, and gaps as "gap 3-7".
std::vector<std::string> names(std::span<const std::string_view> views) {
  std::string all;
  for (const std::string_view view : views) all += view;
  std::vector<std::string> out;
  while (!all.empty()) {
    const std::size_t end = all.find("\n\n");
    if (end == std::string::npos) return {"half an event: " + all};
    const std::string event = all.substr(0, end);
    all.erase(0, end + 2);
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(event.c_str(), R"({"type":"gap","from":%lu,"to":%lu,)", &from, &to) == 2) {
      out.push_back("gap " + std::to_string(from) + "-" + std::to_string(to));
    } else {
      out.push_back(event.substr(0, event.find(':')));
    }
  }
  return out;
}

std::vector<std::string> read_all(EventReader& reader) {
  std::vector<std::string> out;
  for (;;) {
    const auto batch = names(reader.next());
    if (batch.empty()) return out;
    out.insert(out.end(), batch.begin(), batch.end());
  }
}

std::vector<std::string> numbers(std::size_t from, std::size_t to) {
  std::vector<std::string> out;
  for (std::size_t i = from; i <= to; ++i) out.push_back(std::to_string(i));
  return out;
}

struct Fixture : ::testing::Test {
  std::shared_ptr<EventLog> make(std::size_t ring, std::uint64_t spill, bool hold = false) {
    return std::make_shared<EventLog>(EventLog::Options{ring, spill, dir.path().string(), hold});
  }
  testing::TempDir dir;
};
using EventLogTest = Fixture;

TEST_F(EventLogTest, ReadersStartBehindTheNumberTheyName) {
  auto log = make(1 << 20, 0);
  for (int i = 0; i < 5; ++i) add(*log);
  log->publish();
  for (std::size_t after = 0; after <= 5; ++after) {
    EventReader reader(log, after, [] {});
    EXPECT_EQ(read_all(reader), numbers(after + 1, 5)) << after;
  }
}

TEST_F(EventLogTest, AWaitingReaderIsWokenOnceAndEndsAfterTheLastEvent) {
  auto log = make(1 << 20, 0);
  int woken = 0;
  EventReader reader(log, 0, [&] { ++woken; });
  EXPECT_THAT(reader.next(), IsEmpty());
  add(*log);
  add(*log);
  log->publish();
  log->publish();
  EXPECT_EQ(woken, 1);
  EXPECT_THAT(names(reader.next()), ElementsAre("1", "2"));
  EXPECT_FALSE(reader.at_end());
  EXPECT_THAT(reader.next(), IsEmpty());
  log->close();
  EXPECT_EQ(woken, 2);
  EXPECT_TRUE(reader.at_end());
}

TEST_F(EventLogTest, ReaderFollowsABlockThatGrowsBehindIt) {
  auto log = make(1 << 20, 0);
  EventReader reader(log, 0, [] {});
  for (std::size_t i = 1; i <= 500; ++i) {
    add(*log, 33);
    log->publish();
    if (i % 3 == 0) {
      EXPECT_EQ(read_all(reader), numbers(i - 2, i));
    }
  }
}

TEST_F(EventLogTest, OldEventsComeBackFromTheSpillFile) {
  auto log = make(100'000, 10'000'000);
  add_many(*log, 5000, 200);  // 1 MB, ten times the ring
  EXPECT_LE(log->memory_bytes(), 300'000U);
  EXPECT_GT(log->file_bytes(), 500'000U);
  for (const std::size_t after : {0, 1, 777, 2500, 4999, 5000}) {
    EventReader reader(log, after, [] {});
    EXPECT_EQ(read_all(reader), numbers(after + 1, 5000)) << after;
  }
}

TEST_F(EventLogTest, AReaderOvertakenWhileInTheSpillFileMissesNothing) {
  auto log = make(100'000, 10'000'000);
  add_many(*log, 2000, 200);
  EventReader reader(log, 0, [] {});
  std::vector<std::string> got;
  for (int round = 0; round < 2000; ++round) {
    const auto batch = names(reader.next());
    got.insert(got.end(), batch.begin(), batch.end());
    if (round < 40) add_many(*log, 100, 200);
  }
  EXPECT_EQ(got, numbers(1, 6000));
}

TEST_F(EventLogTest, BeyondTheLimitThereIsOneGapAndThenEverythingElse) {
  auto log = make(100'000, 300'000);
  add_many(*log, 10'000, 200);
  EventReader reader(log, 0, [] {});
  const auto got = read_all(reader);
  ASSERT_FALSE(got.empty());
  unsigned long to = 0;
  ASSERT_EQ(std::sscanf(got.front().c_str(), "gap 1-%lu", &to), 1) << got.front();
  EXPECT_GT(to, 7'000U) << "the spill file stays within its limit";
  EXPECT_LT(to, 9'000U) << "and keeps about as much as it may";
  EXPECT_EQ(std::vector(got.begin() + 1, got.end()), numbers(to + 1, 10'000));
  EXPECT_LE(log->file_bytes(), 300'000U);
}

TEST_F(EventLogTest, WithoutAPlaceToSpillThereIsAGap) {
  auto log = std::make_shared<EventLog>(EventLog::Options{100'000, 1 << 20, (dir / "missing").string(), false});
  add_many(*log, 5000, 200);
  EventReader reader(log, 0, [] {});
  const auto got = read_all(reader);
  EXPECT_THAT(got.front(), ::testing::StartsWith("gap 1-"));
  EXPECT_EQ(got.back(), "5000");
}

TEST_F(EventLogTest, ASlowReaderCongestsAndOneThatLeftDoesNot) {
  auto log = make(100'000, 0, true);
  int room = 0;
  log->on_room([&] { ++room; });
  auto reader = std::make_unique<EventReader>(log, 0, [] {});
  std::size_t produced = 0;
  for (; !log->congested() && produced < 10'000; ++produced) add_many(*log, 1, 200);
  EXPECT_LT(produced * 200, 100'000U);
  EXPECT_EQ(room, 0);
  EXPECT_EQ(read_all(*reader), numbers(1, produced)) << "nothing is lost although there is no spill file";
  EXPECT_GT(room, 0);
  EXPECT_FALSE(log->congested());

  add_many(*log, 1000, 200);
  EXPECT_TRUE(log->congested());
  reader.reset();
  EXPECT_FALSE(log->congested());
  EXPECT_LE(log->memory_bytes(), 300'000U);
}

TEST_F(EventLogTest, TheForemostReaderDecidesAboutCongestion) {
  auto log = make(100'000, 10'000'000, true);
  EventReader stuck(log, 0, [] {});
  EventReader quick(log, 0, [] {});
  for (int i = 0; i < 100; ++i) {
    add_many(*log, 20, 200);
    EXPECT_FALSE(log->congested());
    EXPECT_EQ(read_all(quick).size(), 20U);
  }
  EXPECT_EQ(read_all(stuck), numbers(1, 2000)) << "the slow one gets its events from the spill file";
}

TEST_F(EventLogTest, ATrimmedLogKeepsItsLastEventAndDoesNotDisturbReaders) {
  auto log = make(100'000, 10'000'000);
  add_many(*log, 5000, 200);
  log->close();
  EventReader before(log, 10, [] {});
  EXPECT_EQ(names(before.next()).front(), "11");
  log = log->last_event_only();
  EXPECT_THAT(read_all(before), ::testing::Not(::testing::Contains(::testing::StartsWith("gap"))));
  EXPECT_TRUE(before.at_end());
  EventReader reader(log, 10, [] {});
  EXPECT_THAT(read_all(reader), ElementsAre("gap 11-4999", "5000"));
  EXPECT_TRUE(reader.at_end());
  EXPECT_LE(log->memory_bytes(), 300U);
  EXPECT_EQ(log->file_bytes(), 0U);
}

TEST_F(EventLogTest, ShrinkingKeepsEveryEvent) {
  auto log = make(1 << 20, 0);
  add_many(*log, 100, 300);
  EventReader reader(log, 50, [] {});
  log->shrink();
  EXPECT_LE(log->memory_bytes(), 45'000U);
  EXPECT_EQ(read_all(reader), numbers(51, 100));
}

}  // namespace
}  // namespace osb::execd
