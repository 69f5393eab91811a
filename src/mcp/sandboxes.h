#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mcp/kept_output.h"
#include "opensandbox/async.h"

namespace osb::mcp {

namespace sdk = opensandbox::async;

// The sandboxes that one client has made or connected to, and the files it has written there. On the loop.
class Sandboxes {
 public:
  explicit Sandboxes(sdk::Client client) : client_(std::move(client)) {}

  const sdk::Client& client() const { return client_; }
  sdk::SandboxManager manager() const { return sdk::SandboxManager(client_); }

  // `created`: the client made it, so it ends with the client. Connecting to one's own keeps that.
  void add(const sdk::Sandbox& sandbox, bool created);
  std::optional<sdk::Sandbox> find(const std::string& id) const;
  void remove(const std::string& id);
  std::vector<std::string> ids() const;
  // The sandboxes to remove when the client disconnects; they are forgotten here.
  std::vector<sdk::Sandbox> take_created();

  // Files that the client wrote: they are listed as resources. The oldest go beyond kMostFiles per sandbox.
  static constexpr std::size_t kMostFiles = 1000;
  // False: it was not known.
  bool forget_file(const std::string& id, const std::string& path);
  void note_file(const std::string& id, const std::string& path);
  void forget_directory(const std::string& id, const std::string& path);
  struct File {
    std::string sandbox_id;
    std::string path;  // "/": the sandbox's root
  };
  // Sorted, each sandbox with its root first.
  std::vector<File> files() const;

  // The output of shell sessions; removed with the sandbox.
  KeptOutput& kept_output() { return kept_output_; }

  // Changes with what files() returns.
  std::uint64_t version() const { return version_; }

 private:
  struct Entry {
    sdk::Sandbox sandbox;
    bool created = false;
    std::map<std::string, std::uint64_t> files;  // path -> when, counted
  };

  sdk::Client client_;
  std::map<std::string, Entry> entries_;
  KeptOutput kept_output_;
  std::uint64_t version_ = 0;
};

}  // namespace osb::mcp
