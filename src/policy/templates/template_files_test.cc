#include "policy/templates/template_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osb::policy {
namespace {

using ::testing::HasSubstr;

TEST(TemplateFiles, CatalogueFileExtendsTheBuiltInOne) {
  const auto set = make_template_set({{"catalogue.toml", "[[capability]]\nname='intranet'\nallow=['*.corp.example']"},
                                      {"web.toml", "capabilities=['intranet', 'pypi']"},
                                      {"x.toml", "name='other'\nextends='web'"}});
  ASSERT_TRUE(set) << set.error().message;
  const auto all = compile_all(*set);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_TRUE(all->contains("other"));
  EXPECT_EQ(all->at("other").rules.front().rule.text, "*.corp.example");
}

TEST(TemplateFiles, OneWrongFileRefusesAll) {
  EXPECT_THAT(make_template_set({{"a.toml", ""}, {"b.toml", "x = 1"}}).error().message,
              HasSubstr("b.toml:1:1: unknown key"));
  EXPECT_THAT(make_template_set({{"a.toml", ""}, {"b.toml", "name='a'"}}).error().message,
              HasSubstr("b.toml: the name a is taken by a.toml"));
  EXPECT_THAT(make_template_set({{"Big Name.toml", ""}}).error().message, HasSubstr("Big Name.toml: name: "));
  const auto set = make_template_set({{"a.toml", "extends='b'"}});
  ASSERT_TRUE(set);
  EXPECT_THAT(compile_all(*set).error().message, HasSubstr("a.toml:1:9: extends: unknown template \"b\""));
}

TEST(TemplateFiles, NameIsTheFilesWithoutItsEnding) {
  EXPECT_EQ(template_name_of("/x/y/python.toml"), "python");
  EXPECT_EQ(template_name_of("python"), "python");
}

}  // namespace
}  // namespace osb::policy
