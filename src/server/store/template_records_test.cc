#include <gmock/gmock.h>

#include "server/store/store_fixture.h"

namespace osb::server::testing {
namespace {

using osb::testing::await;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace phase = api::template_phase;

class TemplateRecordsTest : public StoreFixture {
 protected:
  void put(std::string id, Timestamp created = at(0), api::StringMap metadata = {}, std::string tenant = "default") {
    api::CreateTemplate spec;
    spec.image = "debian:12";
    spec.publish = "local://";
    spec.entrypoint = {"sleep", "infinity"};
    spec.metadata = std::move(metadata);
    spec.format = "native";
    TemplateRecord record;
    record.id = std::move(id);
    record.owner = {std::move(tenant), "admin"};
    record.spec = std::make_shared<const api::CreateTemplate>(std::move(spec));
    record.status.phase = phase::kPending;
    record.sandbox_id = "sandbox";
    record.snapshot_id = "snapshot";
    record.created_at = record.updated_at = created;
    const auto created_it = await(store_->create_template(std::move(record)));
    ASSERT_TRUE(created_it) << created_it.error().message;
  }
  std::vector<std::string> listed(const api::TemplateQuery& query, const Scope& scope = Scope::all()) {
    std::vector<std::string> out;
    for (const TemplatePtr& each : store_->list_templates(query, scope).items) out.push_back(each->id);
    return out;
  }
};

TEST_F(TemplateRecordsTest, ARecordIsTheSameAfterARestart) {
  put("a", at(1), {{"team", "x"}});
  const auto changed = await(store_->change_template("a", {phase::kPending}, [](TemplateRecord& record) {
    record.status = {std::string(phase::kFailed), "ref", "why"};
    record.sandbox_id.clear();
    record.log = "output";
    record.updated_at = at(5);
  }));
  ASSERT_TRUE(changed) << changed.error().message;
  const TemplateRecord before = *store_->find_template("a");
  reopen();
  const TemplatePtr after = store_->find_template("a");
  ASSERT_TRUE(after);
  EXPECT_EQ(*after->spec, *before.spec);
  EXPECT_EQ(after->status, (api::TemplateStatus{"Failed", "ref", "why"}));
  EXPECT_EQ(after->sandbox_id, "");
  EXPECT_EQ(after->snapshot_id, "snapshot");
  EXPECT_EQ(after->log, "output");
  EXPECT_EQ(after->created_at, at(1));
  EXPECT_EQ(after->updated_at, at(5));
}

TEST_F(TemplateRecordsTest, AChangeNeedsThePhaseItExpects) {
  put("a");
  const auto nothing = [](TemplateRecord&) {};
  EXPECT_EQ(await(store_->change_template("a", {phase::kBuilding}, nothing)).error().reason, "FSB::TEMPLATE_CONFLICT");
  EXPECT_EQ(await(store_->change_template("b", {phase::kPending}, nothing)).error().reason, "FSB::TEMPLATE_NOT_FOUND");
  EXPECT_TRUE(await(store_->erase_template("a")));
  EXPECT_TRUE(await(store_->erase_template("a")));
  EXPECT_FALSE(store_->find_template("a"));
  reopen();
  EXPECT_THAT(store_->all_templates(), IsEmpty());
}

TEST_F(TemplateRecordsTest, ListsAreNewestFirstInScopeAndWithoutThoseBeingDeleted) {
  put("a", at(1), {{"team", "x"}, {"n", "1"}});
  put("b", at(2), {{"team", "x"}});
  put("c", at(3), {{"team", "y"}}, "other");
  put("d", at(4));
  ASSERT_TRUE(await(
      store_->change_template("d", {phase::kPending}, [](TemplateRecord& r) { r.status.phase = phase::kDeleting; })));
  EXPECT_THAT(listed({}), ElementsAre("c", "b", "a"));
  EXPECT_THAT(listed({}, Scope::tenant("other")), ElementsAre("c"));
  EXPECT_THAT(listed({.metadata = {{"team", "x"}}}), ElementsAre("b", "a"));
  EXPECT_THAT(listed({.metadata = {{"team", "x"}, {"n", "1"}}}), ElementsAre("a"));
  EXPECT_THAT(listed({.paging = {2, 2}}), ElementsAre("a"));
  EXPECT_EQ(store_->list_templates({.paging = {2, 2}}, Scope::all()).total, 3);
  EXPECT_TRUE(store_->find_template("d"));
  EXPECT_FALSE(store_->find_template("d", Scope::all()));
  EXPECT_FALSE(store_->find_template("c", Scope::tenant("default")));
}

}  // namespace
}  // namespace osb::server::testing
