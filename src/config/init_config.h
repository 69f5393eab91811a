#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace osb::config {

// The names of `init-config --example X`: native, docker, docker-zh, k8s, k8s-zh.
std::span<const std::string_view> example_names();
// The text of an example; for "" every key with its default, which loads as a native server. NotFound for another name.
Result<std::string> example_config(std::string_view name);

// docs/server-settings.md: every key with its default and meaning.
std::string settings_page();

// Writes it, with its directories. An existing file is Code::Conflict unless `force`. The file is readable by its owner
// only: a key may be put into it. Never leaves half a file.
Result<void> write_example_config(const std::filesystem::path& path, std::string_view example, bool force);

}  // namespace osb::config
