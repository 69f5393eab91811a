#pragma once

#include "config/server_config.h"
#include "config/toml_reader.h"

namespace osb::config {

// Reads and validates every section; what is wrong is rejected at the reader.
void read_sections(TomlReader& reader, const Environment& environment, ServerConfig& config);

// Its parts: what one host needs, what a cluster needs, and the rules between sections.
void read_host_sections(TomlReader& reader, const Environment& environment, ServerConfig& config);
void read_cluster_sections(TomlReader& reader, ServerConfig& config);
void check_sections(TomlReader& reader, const ServerConfig& config);

// Standard base64, padding optional; nothing when it is something else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace osb::config
