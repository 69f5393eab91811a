#include "runtime/docker/docker_options.h"

#include <gtest/gtest.h>

namespace osb::runtime {
namespace {

DockerOptions options(const std::string& listen, const std::string& engine, const std::string& eip = "") {
  config::ServerConfig config;
  config.server.host = listen;
  config.server.eip = eip;
  config::Environment environment;
  environment.variables = {{"HOME", "/home/u"}, {"DOCKER_HOST", engine}};
  return docker_options(config, environment);
}

TEST(DockerOptionsTest, SandboxesArePublishedWhereTheServerListens) {
  EXPECT_EQ(options("127.0.0.1", "").publish_address, "127.0.0.1");
  EXPECT_EQ(options("127.0.0.1", "").public_host, "127.0.0.1");
  EXPECT_EQ(options("192.0.2.1", "unix:///run/x.sock").publish_address, "192.0.2.1");
  EXPECT_EQ(options("0.0.0.0", "").publish_address, "0.0.0.0");
  EXPECT_EQ(options("127.0.0.1", "", "203.0.113.1").publish_address, "0.0.0.0");
  EXPECT_EQ(options("127.0.0.1", "", "203.0.113.1").public_host, "203.0.113.1");
  EXPECT_EQ(options("127.0.0.1", "tcp://127.0.0.1:2376").publish_address, "127.0.0.1");
}

TEST(DockerOptionsTest, AServerInAContainerNamesTheHostThatTheOperatorSays) {
  config::ServerConfig config;
  config.docker.host_ip = "host.example";
  config::Environment inside;
  inside.variables = {{"HOME", "/home/u"}, {"container", "podman"}};
  for (const char* host : {"0.0.0.0", "::", "127.0.0.1", "localhost"}) {
    config.server.host = host;
    EXPECT_EQ(docker_options(config, inside).public_host, "host.example") << host;
  }
  config.server.host = "192.0.2.1";
  EXPECT_EQ(docker_options(config, inside).public_host, "192.0.2.1");
  config.server.host = "0.0.0.0";
  config.docker.host_ip.clear();
  EXPECT_NE(docker_options(config, inside).public_host, "host.example");
}

TEST(DockerOptionsTest, TheOperatorsAddressWins) {
  config::ServerConfig config;
  config.server.host = "0.0.0.0";
  config.docker.publish_host = "192.0.2.9";
  EXPECT_EQ(docker_options(config, {}).publish_address, "192.0.2.9");
}

TEST(DockerOptionsTest, AnEngineOnAnotherMachinePublishesThere) {
  EXPECT_EQ(options("127.0.0.1", "tcp://192.0.2.7:2376").publish_address, "0.0.0.0");
  EXPECT_EQ(options("127.0.0.1", "tcp://192.0.2.7:2376").public_host, "192.0.2.7");
  EXPECT_EQ(options("127.0.0.1", "tcp://engine.example").public_host, "engine.example");
  EXPECT_EQ(options("0.0.0.0", "tcp://192.0.2.7", "203.0.113.1").public_host, "203.0.113.1");
}

TEST(DockerOptionsTest, CertificatesAreWhereTheDockerClientHasThem) {
  config::Environment environment;
  environment.variables["HOME"] = "/home/u";
  environment.variables["DOCKER_TLS_VERIFY"] = "1";
  const DockerOptions found = docker_options({}, environment);
  EXPECT_TRUE(found.engine.tls);
  EXPECT_EQ(found.engine.cert_path, "/home/u/.docker");
  EXPECT_EQ(found.engine.host, "unix:///var/run/docker.sock");
}

}  // namespace
}  // namespace osb::runtime
