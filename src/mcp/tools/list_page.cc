#include "mcp/tools/list_page.h"

#include <algorithm>

#include <boost/json/serialize.hpp>

#include "base/parse_number.h"
#include "mcp/reply_text.h"
#include "mcp/schema.h"

namespace osb::mcp::tools {
namespace {

constexpr std::size_t kDefaultItems = 200;
constexpr std::size_t kDefaultPublishedItems = 1000;
constexpr std::int64_t kMostItems = 10'000;
constexpr std::size_t kOtherFields = 256;

}  // namespace

std::size_t encoded_size(const json::object& item) {
  // The result is a text in the reply: its quotes and backslashes are escaped.
  const std::string text = json::serialize(item);
  const auto escaped = std::ranges::count_if(text, [](char c) { return c == '"' || c == '\\'; });
  return text.size() + static_cast<std::size_t>(escaped) + 1;
}

json::object limit_argument() {
  return schema::nullable(
      schema::at_most(schema::at_least(schema::integer("Most entries to return. Default 200."), 1), kMostItems));
}

json::object cursor_argument() { return schema::nullable(schema::string("next_cursor of the last result")); }

json::object list_schema(json::object item) {
  return schema::object({{"result", schema::list_of(std::move(item), "")},
                         {"total", schema::integer("Entries on all pages.")},
                         {"next_cursor", schema::nullable(schema::string("null: the last page."))}});
}

ToolResult list_page(const Call& call, std::string_view name, std::size_t total,
                     const std::function<json::object(std::size_t)>& item) {
  std::size_t from = 0;
  if (const std::string cursor = call.text("cursor"); !cursor.empty()) {
    from = parse_number<std::size_t>(cursor).value_or(total + 1);
    if (from > total) {
      return tool_failure("INVALID_ARGUMENT", "cursor: expected the next_cursor of an earlier result");
    }
  }
  const std::int64_t* given = call.argument("limit").if_int64();
  const std::size_t limit = given != nullptr   ? static_cast<std::size_t>(*given)
                            : call.published() ? kDefaultPublishedItems
                                               : kDefaultItems;
  const std::size_t room = call.reply_bytes() - std::min(call.reply_bytes(), kOtherFields);
  json::array items;
  std::size_t used = 0, next = from;
  for (; next < total && items.size() < limit; ++next) {
    json::object each = item(next);
    used += encoded_size(each);
    if (used > room && !items.empty()) break;
    items.push_back(std::move(each));
  }
  json::object out;
  out[call.published() ? "result" : name] = std::move(items);
  out["total"] = total;
  out["next_cursor"] = next < total ? json::value(std::to_string(next)) : json::value(nullptr);
  return out;
}

}  // namespace osb::mcp::tools
