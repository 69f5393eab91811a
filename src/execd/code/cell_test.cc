#include "execd/code/cell.h"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "api/json.h"

namespace osb::execd {
namespace {

class CellTest : public testing::Test {
 protected:
  std::shared_ptr<Cell> make(std::chrono::milliseconds timeout = {}) {
    return std::make_shared<Cell>(io_.get_executor(), Cell::Plan{"context-1", 7, timeout, {}, [this](bool ok, auto) {
                                                                   outcomes_.push_back(ok);
                                                                 }});
  }

  // All events of an ended cell, each checked to be JSON that fits a line of every client.
  std::vector<api::json::object> events(const Cell& cell) {
    std::vector<api::json::object> out;
    EventReader reader(cell.log(), 0, [] {});
    std::string text;
    for (auto batch = reader.next(); !batch.empty(); batch = reader.next()) {
      for (const std::string_view piece : batch) text += piece;
    }
    EXPECT_TRUE(reader.at_end());
    for (std::size_t at = 0, end; (end = text.find("\n\n", at)) != std::string::npos; at = end + 2) {
      EXPECT_LE(end - at, kMaxEventBytes);
      auto value = api::parse_json(text.substr(at, end - at));
      EXPECT_TRUE(value);
      if (value) out.push_back(value->as_object());
    }
    return out;
  }

  static std::vector<std::string> types(const std::vector<api::json::object>& events) {
    std::vector<std::string> out;
    for (const auto& event : events) out.emplace_back(event.at("type").as_string());
    return out;
  }

  net::io_context io_;
  std::vector<bool> outcomes_;
};

TEST_F(CellTest, ResultFollowsItsCountAndCarriesPlainTextTwice) {
  const auto cell = make();
  cell->result({{"text/plain", "4"}, {"text/html", "<b>4</b>"}}, false);
  cell->finish();
  const auto seen = events(*cell);
  EXPECT_EQ(types(seen), (std::vector<std::string>{"init", "execution_count", "result", "execution_complete"}));
  EXPECT_EQ(seen[0].at("text").as_string(), "context-1");
  EXPECT_EQ(seen[1].at("execution_count").as_int64(), 7);
  const auto& results = seen[2].at("results").as_object();
  EXPECT_EQ(results.at("text").as_string(), "4");
  EXPECT_EQ(results.at("text/plain").as_string(), "4");
  EXPECT_EQ(results.at("text/html").as_string(), "<b>4</b>");
  EXPECT_EQ(outcomes_, std::vector<bool>{true});
}

TEST_F(CellTest, ErrorOfTheCodeComesOnceAndIsFollowedByTheEnd) {
  const auto cell = make();
  cell->error("NameError", "x", {});
  cell->error("Forged", "y", {});
  cell->finish();
  cell->finish();
  cell->output(false, "too late");
  EXPECT_EQ(types(events(*cell)), (std::vector<std::string>{"init", "error", "execution_complete"}));
  EXPECT_EQ(outcomes_, std::vector<bool>{false});
}

TEST_F(CellTest, FailureOfTheRunnerIsTheLastEvent) {
  const auto cell = make();
  cell->output(false, "last words");
  cell->fail(kKernelDied, "it died");
  EXPECT_EQ(types(events(*cell)), (std::vector<std::string>{"init", "stdout", "error"}));
}

TEST_F(CellTest, TimeoutNamesItselfInsteadOfTheInterrupt) {
  const auto cell = make(std::chrono::milliseconds(250));
  cell->set_timed_out();
  cell->error("KeyboardInterrupt", "", {});
  cell->finish();
  const auto seen = events(*cell);
  EXPECT_EQ(seen[1].at("error").at("ename").as_string(), kExecutionTimeout);
  EXPECT_NE(seen[1].at("error").at("evalue").as_string().find("250 ms"), std::string_view::npos);
}

TEST_F(CellTest, CodeThatEndsWellAfterItsTimeoutHasStillTimedOut) {
  const auto cell = make(std::chrono::milliseconds(250));
  cell->set_timed_out();
  cell->finish();
  EXPECT_EQ(types(events(*cell)), (std::vector<std::string>{"init", "error", "execution_complete"}));
}

TEST_F(CellTest, ValuesTooLargeForAnEventAreCutOrLeftOut) {
  const auto cell = make();
  cell->result({{"text/plain", std::string(3'000'000, '"')}, {"image/png", std::string(5'000'000, 'A')}}, true);
  cell->finish();
  const auto seen = events(*cell);
  EXPECT_EQ(types(seen), (std::vector<std::string>{"init", "result", "stderr", "execution_complete"}));
  EXPECT_TRUE(std::string(seen[1].at("results").at("text").as_string()).ends_with("cut]"));
  EXPECT_NE(seen[2].at("text").as_string().find("image/png"), std::string_view::npos);
}

}  // namespace
}  // namespace osb::execd
