#include "cli/output/table.h"

#include <gtest/gtest.h>

namespace osb::cli {
namespace {

using Widths = std::vector<std::size_t>;

TEST(Table, ColumnsAreShortenedAndThenLeftOutByTheirRank) {
  const std::vector<ColumnWidth> columns = {{12, 0, 0}, {20, 8, 2}, {9, 0, 0}, {40, 10, 3}, {7, 0, 4}};
  EXPECT_EQ(fit_widths(columns, 0, 3), (Widths{12, 20, 9, 40, 7}));
  EXPECT_EQ(fit_widths(columns, 104, 3), (Widths{12, 20, 9, 40, 7}));
  EXPECT_EQ(fit_widths(columns, 80, 3), (Widths{12, 20, 9, 16, 7}));
  EXPECT_EQ(fit_widths(columns, 70, 3), (Widths{12, 16, 9, 10, 7}));
  EXPECT_EQ(fit_widths(columns, 60, 3), (Widths{12, 16, 9, 10, 0})) << "the freed room goes to the more important";
  EXPECT_EQ(fit_widths(columns, 10, 3), (Widths{12, 0, 9, 0, 0}));
}

TEST(Table, IdsAreAsLongAsNeededToTellThemApart) {
  const json::array rows = {{{"id", "3f2b8c1e-0d4a-4f7e"}}, {{"id", "3f2b8c1e-0d4a-5f7e"}}, {{"id", "aaaa"}}};
  const TableText table = fit_table(rows, {{.key = "id", .kind = Column::Kind::Id}}, 80, {});
  EXPECT_EQ(table.rows[0][0], "3f2b8c1e-0d4a-4");
  EXPECT_EQ(table.rows[1][0], "3f2b8c1e-0d4a-5");
  EXPECT_EQ(table.rows[2][0], "aaaa");
  const TableText one = fit_table({rows[0]}, {{.key = "id", .kind = Column::Kind::Id}}, 80, {});
  EXPECT_EQ(one.rows[0][0], "3f2b8c1e-0d4");
}

TEST(Table, MomentsAreAges) {
  const auto now = *parse_timestamp("2025-10-09T08:53:20Z");
  EXPECT_EQ(age_text("2025-10-09T08:53:17Z", now), "3s ago");
  EXPECT_EQ(age_text("2025-10-09T08:50:00Z", now), "3m ago");
  EXPECT_EQ(age_text("2025-10-09T09:53:20Z", now), "in 1h");
  EXPECT_EQ(age_text("2025-10-01T08:53:20Z", now), "8d ago");
  EXPECT_EQ(age_text("never", now), "never");
}

TEST(Table, LongTextsEndInAnEllipsisAndCellsAreWrapped) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("äöüß", 3), "äö…");
  EXPECT_EQ(wrapped_cell("abcde\nfg", 2), "ab\ncd\ne\nfg");
  EXPECT_EQ(wrapped_cell("ääb", 2), "ää\nb");
}

}  // namespace
}  // namespace osb::cli
