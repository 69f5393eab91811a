#include "mcp/resources.h"

#include <boost/json/array.hpp>
#include <fmt/format.h>

#include "base/base64.h"
#include "base/parse_number.h"
#include "base/utf8.h"
#include "http/url.h"
#include "mcp/encoding.h"
#include "mcp/tools/files.h"

namespace osb::mcp {
namespace {

constexpr std::string_view kScheme = "sandbox://";
constexpr std::size_t kPageSize = 100;
constexpr std::size_t kMostBytes = 4 << 20;  // more is for file_read, which can page

RpcFailure not_found(std::string_view uri, std::string_view why) {
  return RpcFailure(
      RpcError{rpc::kResourceNotFound, fmt::format("Resource not found: {}", why), json::object{{"uri", uri}}});
}

RpcFailure failed(std::string_view uri, const opensandbox::Error& error) {
  if (error.status == 404) return not_found(uri, error.message);
  const int code = error.status == 400 ? rpc::kInvalidParams : rpc::kInternalError;  // 400: no file that can be read
  return RpcFailure(RpcError{code, error.to_string(), json::object{{"uri", uri}, {"code", error.code}}});
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view mime_type(std::string_view path, bool text) {
  const std::string_view name = base_name(path);
  const std::size_t dot = name.rfind('.');
  const std::string_view extension = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {"json", "application/json"}, {"html", "text/html"},     {"css", "text/css"},     {"csv", "text/csv"},
      {"md", "text/markdown"},      {"js", "text/javascript"}, {"py", "text/x-python"}, {"png", "image/png"},
      {"jpg", "image/jpeg"},        {"jpeg", "image/jpeg"},    {"gif", "image/gif"},    {"svg", "image/svg+xml"},
      {"pdf", "application/pdf"},
  };
  for (const auto& [known, type] : kKnown) {
    if (known == extension) return type;
  }
  return text ? "text/plain" : "application/octet-stream";
}

}  // namespace

RpcResult page_of(std::string_view name, const json::array& all, const json::object& params) {
  std::size_t from = 0;
  if (const json::value* cursor = params.if_contains("cursor"); cursor != nullptr && !cursor->is_null()) {
    const json::string* text = cursor->if_string();
    const auto wanted = text != nullptr ? parse_number<std::size_t>({text->data(), text->size()}) : std::nullopt;
    if (!wanted || *wanted > all.size()) {
      return RpcFailure(RpcError{rpc::kInvalidParams, "cursor: expected the nextCursor of an earlier answer", nullptr});
    }
    from = *wanted;
  }
  const std::size_t to = std::min(all.size(), from + kPageSize);
  json::object out{{name, json::array(all.begin() + static_cast<std::ptrdiff_t>(from),
                                      all.begin() + static_cast<std::ptrdiff_t>(to))}};
  if (to < all.size()) out["nextCursor"] = std::to_string(to);
  return out;
}

std::string make_resource_uri(std::string_view sandbox_id, std::string_view path) {
  return std::string(kScheme).append(http::percent_encode(sandbox_id)).append(http::percent_encode(path, "/"));
}

std::optional<ResourceUri> parse_resource_uri(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::size_t slash = uri.find('/');
  auto id = http::percent_decode(uri.substr(0, slash));
  auto path = slash == std::string_view::npos ? "/" : http::percent_decode(uri.substr(slash));
  if (!id || id->empty() || !path) return std::nullopt;
  // The template joins id and path with a slash, so an absolute path gives two.
  while (path->starts_with("//")) path->erase(0, 1);
  if (find_invalid_utf8(*id) != std::string_view::npos || find_invalid_utf8(*path) != std::string_view::npos) {
    return std::nullopt;
  }
  return ResourceUri{std::move(*id), std::move(*path)};
}

json::array list_resources(const Sandboxes& sandboxes) {
  json::array out;
  for (const auto& [id, path] : sandboxes.files()) {
    json::object item{{"uri", make_resource_uri(id, path)}};
    if (path == "/") {
      item["name"] = id;
      item["title"] = "Files of sandbox " + id;
      item["mimeType"] = "application/json";
    } else {
      item["name"] = path;
      item["title"] = base_name(path);
      item["mimeType"] = mime_type(path, true);
    }
    out.push_back(std::move(item));
  }
  return out;
}

json::array list_resource_templates() {
  return {json::object{{"uriTemplate", "sandbox://{id}/{+path}"},
                       {"name", "sandbox-file"},
                       {"title", "File in a sandbox"},
                       {"description",
                        "A file, or a directory as a JSON list of its entries. The path is absolute; its "
                        "first slash may be left out."}}};
}

net::awaitable<RpcResult> read_resource(Call& call) {
  const std::string uri = call.text("uri");
  const auto target = parse_resource_uri(uri);
  if (!target) co_return not_found(uri, "expected sandbox://<id>/<path>");
  auto sandbox = call.sandboxes().find(target->sandbox_id);
  if (!sandbox) sandbox = sdk::Sandbox::attach(call.sandboxes().client(), target->sandbox_id);
  auto info = co_await sandbox->files().info(target->path);
  if (!info) co_return failed(uri, info.error());
  json::object content{{"uri", uri}};
  if (info->type == "directory") {
    auto entries = co_await sandbox->files().list(target->path, 1);
    if (!entries) co_return failed(uri, entries.error());
    json::array listed;
    for (const auto& entry : *entries) {
      json::object item = tools::encode_file_info(entry);
      item["uri"] = make_resource_uri(target->sandbox_id, entry.path);
      listed.push_back(std::move(item));
    }
    content["mimeType"] = "application/json";
    content["text"] = pretty(listed);
    if (content["text"].as_string().size() > kMostBytes) {
      co_return RpcFailure(RpcError{
          rpc::kInvalidParams,
          fmt::format("{} has {} entries, too many for a resource; list it with the tool file_list_directory in parts",
                      target->path, entries->size()),
          json::object{{"uri", uri}}});
    }
  } else {
    auto part = co_await tools::read_some(*sandbox, target->path, {}, kMostBytes);
    if (!part) co_return failed(uri, part.error());
    if (part->truncated) {
      co_return RpcFailure(RpcError{
          rpc::kInvalidParams,
          fmt::format("{} is longer than {} bytes; read it with the tool file_read in parts", target->path, kMostBytes),
          json::object{{"uri", uri}, {"size", info->size}}});
    }
    const bool text = find_invalid_utf8(part->bytes) == std::string_view::npos;
    content["mimeType"] = mime_type(target->path, text);
    content[text ? "text" : "blob"] = text ? std::move(part->bytes) : encode_base64(part->bytes);
  }
  json::array contents;
  contents.push_back(std::move(content));
  co_return json::object{{"contents", std::move(contents)}};
}

}  // namespace osb::mcp
