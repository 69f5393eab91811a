#include "api/lifecycle_query.h"

#include "api/lifecycle_testing.h"

namespace osb::api {
namespace {

using std::chrono::seconds;
using testing::kParameter;
using testing::refused;
using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(SandboxQueryTest, HasDefaultsAndTakesEveryParameter) {
  const auto nothing = decode_sandbox_query({});
  EXPECT_EQ(nothing->paging.page, 1);
  EXPECT_EQ(nothing->paging.page_size, 20);
  const auto got = decode_sandbox_query(Pairs{{"state", "Running"},
                                              {"state", "PAUSED"},
                                              {"metadata", "team=a"},
                                              {"page", "3"},
                                              {"pageSize", "200"},
                                              {"x", "y"}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->states, (std::vector<std::string>{"running", "paused"}));
  EXPECT_EQ(got->paging.page, 3);
  EXPECT_EQ(got->paging.page_size, 200);
}

TEST(SandboxQueryTest, TheMetadataFilterIsDecodedOnceMore) {
  const struct {
    const char* why;
    const char* value;
    std::map<std::string, std::string> want;
  } rows[] = {
      {"pairs", "k=v&k2=v2", {{"k", "v"}, {"k2", "v2"}}},
      {"encoded inside, as the Go client does", "a%2Fb=c%26d&e=f+g", {{"a/b", "c&d"}, {"e", "f g"}}},
      {"blank value", "k=", {{"k", ""}}},
      {"the last wins", "k=1&k=2", {{"k", "2"}}},
      {"an equals sign in a value", "k=a=b", {{"k", "a=b"}}},
      {"a broken escape stays", "k=%zz%4", {{"k", "%zz%4"}}},
      {"empty: no filter", "", {}},
  };
  for (const auto& row : rows) {
    const auto got = decode_sandbox_query(Pairs{{"metadata", row.value}});
    ASSERT_TRUE(got) << row.why;
    EXPECT_EQ(got->metadata, row.want) << row.why;
  }
  for (const char* bad : {"k", "k=v&", "&k=v", "k=v&&x=y", "&"}) {
    EXPECT_TRUE(
        refused(decode_sandbox_query(Pairs{{"metadata", bad}}), 400, "INVALID_METADATA_FORMAT", "query/metadata"))
        << bad;
  }
}

TEST(SandboxQueryTest, PagesOutOfRangeAre422) {
  const std::pair<const char*, const char*> rows[] = {
      {"page", "0"},     {"page", "-1"},      {"page", "x"},
      {"page", ""},      {"page", "1.5"},     {"page", "99999999999999999999"},
      {"pageSize", "0"}, {"pageSize", "201"}, {"pageSize", "many"}};
  for (const auto& [key, value] : rows) {
    EXPECT_TRUE(refused(decode_sandbox_query(Pairs{{key, value}}), 422, kParameter, "query/" + std::string(key) + ": "))
        << value;
    EXPECT_TRUE(
        refused(decode_snapshot_query(Pairs{{key, value}}), 422, kParameter, "query/" + std::string(key) + ": "));
  }
}

TEST(SnapshotQueryTest, TakesEveryParameter) {
  const auto got = decode_snapshot_query(
      Pairs{{"sandboxId", "s"}, {"state", "Ready"}, {"state", "failed"}, {"name", "n"}, {"page", "2"}});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->sandbox_id, "s");
  EXPECT_EQ(got->states, (std::vector<std::string>{"Ready", "failed"})) << "case counts here";
  EXPECT_EQ(got->name, "n");
  EXPECT_EQ(got->paging.page, 2);
}

TEST(PageInfoTest, CountsPages) {
  EXPECT_EQ(encode_page_info({1, 20, 0}),
            R"({"page":1,"pageSize":20,"totalItems":0,"totalPages":0,"hasNextPage":false})");
  EXPECT_EQ(encode_page_info({2, 20, 41}),
            R"({"page":2,"pageSize":20,"totalItems":41,"totalPages":3,"hasNextPage":true})");
  EXPECT_FALSE((PageInfo{3, 20, 41}.has_next()));
  EXPECT_FALSE((PageInfo{9, 20, 41}.has_next()));
  EXPECT_EQ((PageInfo{1, 20, 40}.total_pages()), 2);
}

TEST(WaitTest, TheQueryWinsOverThePreference) {
  const auto wait = [](Pairs query, std::string_view prefer) { return decode_wait(query, prefer); };
  EXPECT_EQ(wait({}, "")->limit, seconds(0));
  EXPECT_FALSE(wait({}, "")->asked);
  EXPECT_EQ(wait({{"wait", "20"}}, "wait=5")->limit, seconds(20));
  EXPECT_EQ(wait({{"wait", "20"}}, "wait=5")->applied, "");
  EXPECT_TRUE(wait({{"wait", "0"}}, "")->asked);
  EXPECT_EQ(wait({{"wait", "999999"}}, "")->limit, seconds(300));
  const struct {
    const char* prefer;
    int want;
    const char* applied;
  } rows[] = {{"wait=5", 5, "wait=5"},
              {"respond-async, WAIT = 7", 7, "wait=7"},
              {"wait=7, respond-async", 7, "wait=7"},
              {"Respond-Async", 0, "respond-async"},
              {"respond-async, wait=soon", 0, "respond-async"},
              {"respond-asynchronously", 0, ""},
              {"wait=\"9\"; foo=bar", 9, "wait=9"},
              {"wait=5, wait=6", 5, "wait=5"},
              {"wait=0", 0, "wait=0"},
              {"wait", 0, ""},
              {"wait=soon", 0, ""},
              {"waiting=5", 0, ""},
              {"wait=-1", 0, ""},
              {"wait=301", 300, "wait=300"},
              {",,,", 0, ""}};
  for (const auto& row : rows) {
    const auto got = wait({}, row.prefer);
    ASSERT_TRUE(got) << row.prefer;
    EXPECT_EQ(got->limit, seconds(row.want)) << row.prefer;
    EXPECT_EQ(got->applied, row.applied) << row.prefer;
    EXPECT_EQ(got->asked, !got->applied.empty()) << row.prefer;
  }
  for (const char* bad : {"-1", "x", "1.5", ""}) {
    EXPECT_TRUE(refused(wait({{"wait", bad}}, ""), 422, kParameter, "query/wait: expected an integer")) << bad;
  }
}

TEST(IdempotencyKeyTest, HasALengthAndNoControls) {
  EXPECT_TRUE(check_idempotency_key("rollout-17/step-4"));
  EXPECT_TRUE(check_idempotency_key(std::string(255, 'x')));
  for (const std::string& bad : {std::string(), std::string(256, 'x'), std::string("a\tb"), std::string("a\x7f")}) {
    EXPECT_TRUE(refused(check_idempotency_key(bad), 422, kParameter, "header/Idempotency-Key: "));
  }
}

}  // namespace
}  // namespace osb::api
