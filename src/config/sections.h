#pragma once

#include "config/server_config.h"
#include "config/toml_reader.h"

namespace osb::config {

// Reads the keys that have no field of their own: [ingress], [secure_runtime] and [credentials].
void read_other_keys(TomlReader& reader, ServerConfig& config);

// [[credentials.entries]].
void read_credentials(TomlReader& reader, CredentialsSection& out);

// The rules between keys and between sections.
void check_sections(TomlReader& reader, const ServerConfig& config);

// [egress.upstream_proxy] with the backend and the rest of [egress].
void check_upstream_proxy(TomlReader& reader, RuntimeType runtime, const EgressSection& egress);

// Standard base64, padding optional; nothing when it is something else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace osb::config
