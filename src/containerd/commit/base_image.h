#pragma once

#include <string>

#include "async/net.h"
#include "containerd/client.h"
#include "containerd/commit/committed_image.h"

namespace osb::containerd {

// The image with exactly the layers that the container stands on. Usually it has the container's image name; if that
// name stands for another image by now, all images are searched. NotFound if there is none.
net::awaitable<Result<BaseImage>> find_base(Client& client, Container container, std::string parent);

}  // namespace osb::containerd
