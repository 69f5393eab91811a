#include "execd/isolated/isolation_config.h"

#include <gtest/gtest.h>

namespace osb::execd {
namespace {

TEST(IsolationConfig, SetsWhatItNamesAndLeavesTheRest) {
  IsolationOptions options;
  const auto read = read_isolation_config(R"(# settings
upper_root = "/var/lib/execd/isolation"   # the published one
diff_max_bytes = 1_000_000
allowed_writable = [
  "/srv/cases/", # with a comment
  '/srv/data',
]

[hardening]
enabled = false
keep_capabilities = ["CAP_NET_RAW"]
[landlock]
enabled = false
[ebpf]
observe = ["exec"]
)",
                                          "f", options);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(options.diff_max_bytes, 1'000'000u);
  EXPECT_EQ(options.upper_max_bytes, IsolationOptions().upper_max_bytes);
  EXPECT_EQ(options.allowed_writable, (std::vector<std::string>{"/srv/cases", "/srv/data"}));
}

TEST(IsolationConfig, WhatCannotBeHadIsRefusedByName) {
  const struct {
    const char* text;
    const char* error;
  } rows[] = {
      {"[hardening]\nenabled = true", "f: [hardening] enabled: "},
      {"[landlock]\nenabled = true", "f: [landlock] enabled: "},
      {"[ebpf]\nenabled = 1", "f: [ebpf] enabled: "},
      {"[hardening]\nenabled = \"no\"", "f: [hardening] enabled: "},
      {"[seccomp]\ndeny = [\"mount\"]", "f: [seccomp] deny: "},
      {"[hardning]\nenabled = false", "f: [hardning] enabled: there is no such section"},
      {"hardening = true", "f: hardening: there is no such key"},
      {"hardening.enabled = true", "f: line 1: expected key = value"},
      {"hardening = { enabled = true }", "f: line 1: expected a number"},
      {"[[hardening]]", "f: line 1: expected [section]"},
      {"upper_root = \"/data\"", "f: upper_root: "},
      {"upper_max_bytes = 0", "f: upper_max_bytes: expected a number"},
      {"diff_max_bytes = \"4GiB\"", "f: diff_max_bytes: expected a number"},
      {"allowed_writable = \"/srv\"", "f: allowed_writable: expected a list"},
      {"allowed_writable = [\"work\"]", "f: allowed_writable: expected absolute"},
      {"allowed_writable = [\"/\"]", "f: allowed_writable: expected absolute"},
      {"alowed_writable = []", "f: alowed_writable: there is no such key"},
      {"allowed_writable = [\"/srv\" \"/data\"]", "f: line 1: expected , or ]"},
      {"allowed_writable = [\"/srv\",", "f: line 1: expected a list of strings"},
      {"allowed_writable = [\"/sr\\u0076\"]", "f: line 1: expected a string of one line"},
      {"upper_root = \"", "f: line 1: expected a string"},
      {"upper_max_bytes = 5 6", "f: line 1: expected the end of the line"},
      {"\nupper_max_bytes =", "f: line 2: expected a number"},
      {"upper_max_bytes = 99999999999999999999", "f: line 1: expected a number"},
  };
  for (const auto& row : rows) {
    IsolationOptions options;
    const auto read = read_isolation_config(row.text, "f", options);
    ASSERT_FALSE(read) << row.text;
    EXPECT_TRUE(read.error().message.starts_with(row.error)) << row.text << ": " << read.error().message;
  }
}

TEST(IsolationConfig, AFileThatIsMissingIsAnError) {
  IsolationOptions options;
  EXPECT_TRUE(load_isolation_config("/no/such/file", options).error().message.starts_with("/no/such/file: "));
}

}  // namespace
}  // namespace osb::execd
