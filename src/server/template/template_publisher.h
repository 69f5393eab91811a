#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/blocking_pool.h"
#include "async/net.h"
#include "base/error.h"
#include "http/client.h"
#include "image/reference.h"
#include "runtime/snapshots.h"
#include "server/template/publish_places.h"

namespace osb::server {

// The place that a template's `publish` names.
struct PublishTarget {
  enum class Kind { Local, File, Registry } kind = Kind::Local;
  // With File; both absolute, without "." and "..".
  std::filesystem::path file;
  std::filesystem::path directory;  // of the operator's list
  image::Reference image;           // with Registry; it has a tag and no digest
};

// Reads `publish`: local:// (this server keeps the template, and nothing else), file:///DIRECTORY/NAME.tar in a listed
// directory, or oci://REGISTRY/REPOSITORY[:TAG] in a listed registry. Everything else is a 400 at /publish that says
// what there is.
Result<PublishTarget> parse_publish(std::string_view text, const PublishPlaces& places);

// Puts the snapshot of a template where its `publish` says: an OCI archive, which `osb image load` and `docker load`
// take, or an image in a registry.
class TemplatePublisher {
 public:
  // `snapshots` and `places` outlive it. Removes what an earlier process left in the scratch directory.
  TemplatePublisher(net::any_io_executor executor, runtime::Snapshots& snapshots, const PublishPlaces& places);

  // Returns the reference of what was published. A file appears whole or not at all, and replaces an older one; so does
  // an image. `template_id` names it where the target does not.
  net::awaitable<Result<std::string>> publish(PublishTarget target, std::string template_id, std::string snapshot);

 private:
  net::awaitable<Result<void>> write_file(PublishTarget target, std::string snapshot);
  net::awaitable<Result<std::string>> push(image::Reference name, std::string template_id, std::string snapshot);

  runtime::Snapshots& snapshots_;
  const PublishPlaces& places_;
  http::Client registries_;
  BlockingPool disk_{2};
};

}  // namespace osb::server
