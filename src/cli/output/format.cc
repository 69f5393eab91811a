#include "cli/output/format.h"

#include <string>
#include <strings.h>

namespace osb::cli {

std::string_view format_name(Format format) {
  switch (format) {
    case Format::Table:
      return "table";
    case Format::Wide:
      return "wide";
    case Format::Json:
      return "json";
    case Format::Yaml:
      return "yaml";
    case Format::Raw:
      return "raw";
  }
  return "table";
}

std::optional<Format> parse_format(std::string_view name) {
  for (const Format format : {Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Raw}) {
    const std::string_view known = format_name(format);
    if (known.size() == name.size() && ::strncasecmp(known.data(), name.data(), name.size()) == 0) return format;
  }
  return std::nullopt;
}

}  // namespace osb::cli
