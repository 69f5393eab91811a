#include "mcp/schema.h"
#include "mcp/tools/list_page.h"

namespace osb::mcp::tools {
namespace {

json::object encode_image(const opensandbox::Image& image) {
  json::object out{{"image", image.uri}, {"digest", or_null(image.digest)}};
  out["platform"] =
      image.platform ? json::value(image.platform->os + "/" + image.platform->arch) : json::value(nullptr);
  out["size_bytes"] = image.size_bytes ? json::value(*image.size_bytes) : json::value(nullptr);
  out["created_at"] = or_null(image.created_at);
  return out;
}

net::awaitable<ToolResult> image_list(Call& call) {
  auto images = co_await call.sandboxes().manager().images();
  if (!images) {
    ToolFailure failed = tool_failure(images.error());
    const int status = images.error().status;
    if (status == 404 || status == 405 || status == 501) {
      failed.error().code = "NOT_AVAILABLE";
      failed.error().message =
          "This server does not list images: its backend has no image store of its own. Pass the reference of any "
          "image to sandbox_create, e.g. python:3.12; the backend pulls it.";
    }
    co_return failed;
  }
  co_return list_page(call, "images", images->size(), [&](std::size_t i) { return encode_image((*images)[i]); });
}

}  // namespace

std::vector<Tool> image_tools() {
  const json::object text = schema::nullable(schema::string(""));
  return {{.name = "image_list",
           .title = "List images",
           .description = "List the images that the server has already: sandbox_create starts them without a download.",
           .hints = {.read_only = true},
           .input = schema::arguments({{"limit", limit_argument()}, {"cursor", cursor_argument()}}),
           .output = list_schema(schema::object({{"image", schema::string("")},
                                                 {"digest", text},
                                                 {"platform", text},
                                                 {"size_bytes", schema::nullable(schema::integer(""))},
                                                 {"created_at", text}})),
           .run = image_list,
           .pages = true,
           .common = true}};
}

}  // namespace osb::mcp::tools
