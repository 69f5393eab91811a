#pragma once

#include <vector>

#include "sandboxd/image/image_service.h"
#include "sandboxd/sandbox/endings.h"

namespace osb::sandboxd {

// Fills the table with the sandboxes of an earlier daemon. Finishes creates and removes that its end interrupted, and
// removes everything that no living sandbox owns. Blocks: the daemon has no clients yet, and the slot pool has not been
// started.
class Recovery {
 public:
  Recovery(const SandboxContext& context, ImageService& images, Endings& endings)
      : context_(context), images_(images), endings_(endings) {}

  void run();

 private:
  void recover(const std::string& id);
  void adopt(SandboxEntry& entry, LiveSandbox live);
  void finish(SandboxRecord record);

  const SandboxContext& context_;
  ImageService& images_;
  Endings& endings_;
  std::vector<SandboxRecord> unfinished_;
};

}  // namespace osb::sandboxd
