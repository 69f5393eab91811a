#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "http/url.h"
#include "sandboxd/daemon/routes.h"

namespace osb::sandboxd {
namespace {

namespace json = boost::json;

constexpr const char* kDefaultCode = "NATIVE::ERROR";

http::Response refuse(const Error& error) { return http::problem(error, kDefaultCode); }

json::value encode(const ImageInfo& info) {
  return api::native::encode(api::native::Image{.name = info.familiar,
                                                .digest = info.id.to_string(),
                                                .bytes = info.bytes,
                                                .created_at = Timestamp(std::chrono::seconds(info.created)),
                                                .in_use = info.in_use});
}

json::array encode(const std::vector<ImageInfo>& images) {
  json::array out;
  for (const ImageInfo& info : images) out.push_back(encode(info));
  return out;
}

std::string_view name_of(image::PullProgress::Stage stage) {
  switch (stage) {
    case image::PullProgress::Stage::Downloading:
      return "downloading";
    case image::PullProgress::Stage::Unpacking:
      return "unpacking";
    case image::PullProgress::Stage::Done:
      return "done";
  }
  return "";
}

// One JSON document a line: a layer's latest state, and at the end the image or the error.
net::awaitable<Result<void>> send_progress(ImageService::Pull& pull, http::BodyWriter& out) {
  // A registry may say nothing for long, a client must not take that for a daemon that hangs.
  if (auto begun = co_await out.flush(); !begun) co_return begun;
  for (;;) {
    auto next = co_await pull.next();
    json::object line;
    const bool last = !next || !*next;
    if (!last) {
      line = {{"type", "layer"},
              {"layer", (*next)->layer.to_string()},
              {"stage", name_of((*next)->stage)},
              {"bytes", (*next)->bytes},
              {"total", (*next)->total}};
    } else {
      const auto result = next ? pull.result() : Result<ImageInfo>(Failure(next.error()));
      if (result) {
        line = {{"type", "image"}, {"image", encode(*result)}};
      } else {
        line = {{"type", "error"}, {"code", kDefaultCode}, {"message", result.error().message}};
      }
    }
    if (auto sent = co_await out.write(json::serialize(line) + "\n"); !sent || last) co_return sent;
  }
}

net::awaitable<http::Response> pull(ImageService& images, http::Request& request) {
  auto body = co_await request.body->read_all(1 << 20);
  if (!body) co_return refuse(body.error());
  auto value = api::parse_json(*body);
  if (!value) co_return refuse(value.error());
  api::ObjectReader reader(*value, {});
  const std::string name = reader.required_string("name");
  RegistryAuth auth;
  reader.object("login", [&](api::ObjectReader& login) {
    auth = image::Credentials{login.required_string("username"), login.optional_string("password").value_or("")};
  });
  if (auto read = reader.finish(); !read) co_return refuse(read.error());
  auto begun = images.pull(name, std::move(auth));
  if (!begun) co_return refuse(begun.error());
  http::Response response;
  response.headers.set("Content-Type", "application/x-ndjson");
  response.body = http::StreamBody{
      [pull = std::move(*begun)](http::BodyWriter& out) mutable { return send_progress(*pull, out); }, std::nullopt};
  co_return response;
}

}  // namespace

void add_image_routes(http::Router& router, ImageService& images) {
  using http::Request;
  using http::Response;
  using Answer = net::awaitable<Response>;
  const auto answer = [](int status, const json::value& value) {
    return http::json_response(status, json::serialize(value));
  };

  router.get("/v1/images", [&images, answer](Request&) -> Answer {
    co_return answer(200, json::object{{"images", encode(images.list())}});
  });
  router.post("/v1/images/pull", [&images](Request& request) { return pull(images, request); });
  // The body is a `docker save` or OCI archive, or with ?name= the tar of a root directory; the name overrides those in
  // it.
  router.post("/v1/images/load", [&images, answer](Request& request) -> Answer {
    const http::Query query = http::Query::parse(request.query());
    std::optional<std::string> name;
    if (const std::string* text = query.find("name")) name = *text;
    auto loaded = co_await images.load(*request.body, std::move(name));
    co_return loaded ? answer(200, json::object{{"images", encode(*loaded)}}) : refuse(loaded.error());
  });
  router.post("/v1/images/add-directory", [&images, answer](Request& request) -> Answer {
    const http::Query query = http::Query::parse(request.query());
    auto added = co_await images.add_directory(std::string(query.get("path")), std::string(query.get("name")));
    co_return added ? answer(200, encode(*added)) : refuse(added.error());
  });
  router.get("/v1/images/save", [&images](Request& request) -> Answer {
    const http::Query query = http::Query::parse(request.query());
    std::string name(query.get("name"));
    if (auto found = images.inspect(name); !found) co_return refuse(found.error());
    auto permit = co_await images.send_permit();
    if (!permit) co_return refuse(permit.error());
    Response response;
    response.headers.set("Content-Type", "application/x-tar");
    response.body =
        http::StreamBody{[&images, name = std::move(name), permit = std::move(*permit)](http::BodyWriter& out) mutable {
                           return images.save(name, out, std::move(permit));
                         },
                         std::nullopt};
    co_return response;
  });
  router.post("/v1/images/collect", [&images, answer](Request&) -> Answer {
    auto collected = co_await images.collect(0);
    if (!collected) co_return refuse(collected.error());
    co_return answer(200, json::object{{"layers", collected->layers}, {"bytes", collected->bytes}});
  });
  router.del("/v1/images", [&images](Request& request) -> Answer {
    const http::Query query = http::Query::parse(request.query());
    auto removed = co_await images.remove(std::string(query.get("name")), query.get("force") == "true");
    co_return removed ? http::empty_response(204) : refuse(removed.error());
  });
}

void add_volume_routes(http::Router& router, BlockingPool& pool, VolumeStore& volumes) {
  using http::Request;
  using http::Response;
  using Answer = net::awaitable<Response>;
  router.get("/v1/volumes", [&](Request&) -> Answer {
    auto names = co_await pool.run([&] { return volumes.list(); });
    if (!names) co_return refuse(names.error());
    co_return http::json_response(
        200, json::serialize(json::object{{"volumes", json::array(names->begin(), names->end())}}));
  });
  router.put("/v1/volumes/{name}", [&](Request& request) -> Answer {
    auto made = co_await pool.run([&] { return volumes.create(request.params["name"]); });
    co_return made ? http::empty_response(201) : refuse(made.error());
  });
  // Sandboxes that use it hold it: a conflict.
  router.del("/v1/volumes/{name}", [&](Request& request) -> Answer {
    auto removed = co_await pool.run([&] { return volumes.remove(request.params["name"], 0); });
    co_return removed ? http::empty_response(204) : refuse(removed.error());
  });
}

}  // namespace osb::sandboxd
