#pragma once

// A real docker-registry on loopback, with the images a test puts into it.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "http/client.h"
#include "http/url.h"
#include "image/digest.h"
#include "image/layer_fixture.h"
#include "image/manifest.h"
#include "image/registry_auth.h"
#include "support/await.h"
#include "sys/pidfd.h"
#include "sys/spawn.h"
#include "sys/syscall.h"

namespace osb::image::testing {

inline constexpr const char* kRegistryProgram = "/usr/bin/docker-registry";

struct TestImage {
  std::string name;                 // repository:tag
  std::vector<std::string> layers;  // as uploaded: plain or compressed
  std::vector<std::string> tars;    // uncompressed
};

class DockerRegistry {
 public:
  // User "puller", password "s:ecret" (in bcrypt: the only form it takes). With a certificate it talks TLS.
  explicit DockerRegistry(std::filesystem::path directory, std::string certificate = "", std::string key = "")
      : directory_(std::move(directory)), scheme_(certificate.empty() ? "http" : "https") {
    std::filesystem::create_directories(directory_);
    write("users", "puller:$2y$05$mqdrg3FUyyYISluLHkpfJuM1J7g9CLwBx6ecYp7DMeN9pwPSM6eeu\n");
    std::string tls;
    if (!certificate.empty()) {
      tls = fmt::format("  tls: {{certificate: {}, key: {}}}\n", write("crt", certificate), write("key", key));
    }
    const std::string config = write(
        "config.yml", fmt::format("version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n"
                                  "auth: {{htpasswd: {{realm: test, path: {}}}}}\nhttp:\n  addr: 127.0.0.1:0\n{}",
                                  (directory_ / "data").string(), (directory_ / "users").string(), tls));
    auto pipe = sys::make_pipe();
    sys::SpawnPlan plan;
    plan.program = kRegistryProgram;
    plan.argv = {"docker-registry", "serve", config};
    plan.env = {"PATH=/usr/bin:/bin", "OTEL_TRACES_EXPORTER=none"};
    plan.fds = {{1, pipe->write.get()}, {2, pipe->write.get()}};
    auto child = sys::spawn(plan);
    if (!child) throw std::runtime_error(child.error().message);
    child_ = std::move(*child);
    log_ = std::move(pipe->read);
    pipe->write.reset();
    read_address();
  }
  ~DockerRegistry() {
    (void)sys::send_signal(child_.pidfd.get(), SIGKILL);
    (void)sys::wait_ended(child_.pidfd.get(), std::chrono::seconds(10));
    (void)sys::reap(child_);
  }

  const std::string& host() const { return host_; }
  std::filesystem::path data() const { return directory_ / "data"; }

  // Uploads everything and returns the manifest's digest.
  Digest push(net::io_context& io, http::Client& client, const TestImage& image) {
    const std::string repository = image.name.substr(0, image.name.find(':'));
    const std::string tag = image.name.substr(repository.size() + 1);
    std::string ids, layers;
    for (std::size_t i = 0; i < image.layers.size(); ++i) {
      ids += fmt::format("{}\"{}\"", i ? "," : "", Digest::of(image.tars[i]).to_string());
      layers += fmt::format(R"({}{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"{}","size":{}}})",
                            i ? "," : "", blob(io, client, repository, image.layers[i]), image.layers[i].size());
    }
    const std::string config = fmt::format(
        R"({{"os":"linux","architecture":"{}","config":{{"Cmd":["sh"]}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}})",
        host_platform().architecture, ids);
    const std::string manifest = fmt::format(
        R"({{"schemaVersion":2,"mediaType":"{}","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":{}}},"layers":[{}]}})",
        kManifestType, blob(io, client, repository, config), config.size(), layers);
    put_manifest(io, client, repository, tag, kManifestType, manifest);
    return Digest::of(manifest);
  }

  // An index under `tag` whose entry for this platform is `manifest`, beside one for another.
  void push_index(net::io_context& io, http::Client& client, const std::string& repository, const std::string& tag,
                  const Digest& manifest, std::size_t size) {
    constexpr const char* kType = "application/vnd.oci.image.index.v1+json";
    const auto entry = [&](const std::string& architecture) {
      return fmt::format(
          R"({{"mediaType":"{}","digest":"{}","size":{},"platform":{{"os":"linux","architecture":"{}"}}}})",
          kManifestType, manifest.to_string(), size, architecture);
    };
    put_manifest(io, client, repository, tag, kType,
                 fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{},{}]}})", kType, entry("s390x"),
                             entry(host_platform().architecture)));
  }

 private:
  static constexpr const char* kManifestType = "application/vnd.oci.image.manifest.v1+json";

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    return (directory_ / name).string();
  }

  // It says on which port it listens.
  void read_address() {
    constexpr std::string_view kSays = "listening on ";
    std::string text;
    char buffer[4096];
    for (;;) {
      const ssize_t got = ::read(log_.get(), buffer, sizeof buffer);
      if (got <= 0) throw std::runtime_error("docker-registry did not start: " + text);
      text.append(buffer, static_cast<std::size_t>(got));
      const std::size_t at = text.find(kSays);
      if (at == std::string::npos) continue;
      const std::size_t end = text.find_first_of(",\" \n", at + kSays.size());
      if (end == std::string::npos) continue;
      host_ = text.substr(at + kSays.size(), end - at - kSays.size());
      return;
    }
  }

  http::ClientResponse send(net::io_context& io, http::Client& client, http::ClientRequest request, int expected) {
    request.headers.set("Authorization", basic_authorization("puller", "s:ecret"));
    auto response = osb::testing::await(io, client.send(scheme_ + "://" + host_, std::move(request)));
    if (!response) throw std::runtime_error(response.error().message);
    auto body = osb::testing::await(io, response->body->read_all(1 << 20));
    if (response->status != expected) throw std::runtime_error(fmt::format("{}: {}", response->status, *body));
    return std::move(*response);
  }

  std::string blob(net::io_context& io, http::Client& client, const std::string& repository, const std::string& bytes) {
    const std::string digest = Digest::of(bytes).to_string();
    http::ClientRequest start;
    start.method = "POST";
    start.target = "/v2/" + repository + "/blobs/uploads/";
    const std::string location(send(io, client, std::move(start), 202).headers.get("Location"));
    http::ClientRequest put;
    put.method = "PUT";
    const auto url = http::Url::parse(location);
    put.target = (url ? url->target : location) + "&digest=" + http::percent_encode(digest);
    put.body = bytes;
    send(io, client, std::move(put), 201);
    return digest;
  }

  void put_manifest(net::io_context& io, http::Client& client, const std::string& repository, const std::string& tag,
                    const std::string& type, const std::string& text) {
    http::ClientRequest put;
    put.method = "PUT";
    put.target = "/v2/" + repository + "/manifests/" + tag;
    put.headers.set("Content-Type", type);
    put.body = text;
    send(io, client, std::move(put), 201);
  }

  std::filesystem::path directory_;
  std::string scheme_, host_;
  sys::Child child_;
  UniqueFd log_;
};

}  // namespace osb::image::testing
