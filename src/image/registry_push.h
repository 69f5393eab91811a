#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "async/blocking_pool.h"
#include "async/net.h"
#include "base/error.h"
#include "http/body.h"
#include "image/archive_spool.h"
#include "image/registry_client.h"

namespace osb::image {

struct PushOptions {
  RegistryAccess access;          // `push` is set by the call
  std::filesystem::path scratch;  // an empty directory for the archive's entries; the caller removes it
  std::uint64_t max_bytes = std::uint64_t{64} << 30;  // of the archive
};

// Sends the one image of an archive, plain `docker save` or the same with an OCI layout, to the registry under the name
// `reference`, which has a tag. The archive is kept in `scratch` meanwhile, because its manifest may come last. Blobs
// that the registry has are not sent again; the manifest, which makes the image visible, goes last. Layers go as they
// are in the archive. Returns the manifest's digest.
//
// Errors as RegistryClient's, and InvalidRequest for an archive that holds no image, or several. Client, pool and
// archive outlive it.
net::awaitable<Result<Digest>> push_archive(http::Client& client, BlockingPool& pool, Reference reference,
                                            PushOptions options, http::BodySource& archive);

}  // namespace osb::image
