#pragma once

#include <optional>
#include <string_view>

namespace osb::cli {

enum class Format { Table, Wide, Json, Yaml, Raw };

std::string_view format_name(Format format);
std::optional<Format> parse_format(std::string_view name);  // any case

}  // namespace osb::cli
